//! A hit of the cache allocates nothing, and neither does a renewal.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Section, Writer, rtype};
use server_core::cache::{Cache, Key};

/// The system's allocator, counted.
struct Counting;

thread_local! {
    /// Of this thread alone: the test harness allocates whenever it likes.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `alloc` above, and so from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, octets: usize) -> *mut u8 {
        count();
        // SAFETY: `place` came from `alloc` above, and so from the system's allocator.
        unsafe { System.realloc(place, layout, octets) }
    }
}

/// How many allocations happen while `work` is done.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn neither_hits_nor_misses_nor_insertions_allocate() {
    let question =
        Question { name: Name::from_text("www.example.test").unwrap(), qtype: rtype::A, qclass: CLASS_IN };
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, 1, Header::QR, &question).unwrap();
    for host in 0..8 {
        writer.record(Section::Answer, &question.name, rtype::A, CLASS_IN, 60, &[192, 0, 2, host]).unwrap();
    }
    let length = writer.finish();
    let reply = Message::parse(&buffer[..length]).unwrap();
    let (key, absent) = (Key::new(&question, false, false, 0), Key::new(&question, true, false, 0));
    let cache = Cache::new(1 << 20, [3; 32]);
    let mut out = Vec::with_capacity(512);
    assert!(allocations(|| drop(std::hint::black_box(vec![0u8; 1000]))) > 0, "allocations are counted");
    let counted = allocations(|| {
        for now_s in 0..1000 {
            cache.insert(&key, &reply, 60, now_s * 1_000_000_000);
            cache.insert_failure(&absent, 1, 22, now_s * 1_000_000_000);
            for age_s in [0, 1, 59, 61] {
                let now_ns = (now_s + age_s) * 1_000_000_000;
                assert!(cache.get(&key, now_ns, &mut out).is_some());
                assert!(cache.get(&absent, now_ns, &mut out).is_none());
                assert!(cache.nxdomain_above(&key, now_ns, usize::MAX, &mut out).is_none());
                std::hint::black_box(cache.failure(&absent, now_ns));
            }
        }
    });
    assert_eq!(counted, 0);
}
