//! What the cache costs: `cargo bench -p dns64d-core --bench cache`.
//!
//! For each size it is filled beyond its memory with replies of random names; then come look-ups of names
//! that are there, of names that are not, insertions, renewals, and look-ups by two threads at once.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark has a clock and prints"
)]

mod common;

use std::hint::black_box;
use std::time::Instant;

use common::median;
use dns64::wire::{CLASS_IN, Header, Message, Name, Overflow, Question, Section, Writer, rtype};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use server_core::cache::{Cache, Key};

const SIZES_MIB: [usize; 3] = [1, 64, 512];
const LOOK_UPS: usize = 1 << 17;
/// Turns that are timed together.
const STRETCH: usize = 512;
const TTL_S: u32 = 3600;
const S: u64 = 1_000_000_000;

fn main() -> Result<(), Overflow> {
    println!("   MiB    entries  octets/entry    hit   miss  insert  renew  hit, 2 threads   [ns]");
    for size_mib in SIZES_MIB {
        let row = measure(size_mib << 20)?;
        let [hit, miss, insert, renew, shared] = row.costs_ns;
        println!(
            "{size_mib:6} {:10} {:13.0} {hit:6.0} {miss:6.0} {insert:7.0} {renew:6.0} {shared:15.0}",
            row.entries, row.octets_per_entry
        );
    }
    Ok(())
}

struct Row {
    entries: u64,
    octets_per_entry: f64,
    /// Hit, miss, insertion, renewal, hit by each of two threads.
    costs_ns: [f64; 5],
}

fn measure(octets: usize) -> Result<Row, Overflow> {
    let cache = Cache::new(octets, [9; 32]);
    // More than fit at 150 octets each: every insertion that is timed evicts another entry.
    let names = (octets / 150).next_multiple_of(STRETCH);
    let insert = timed(names, |n| put(&cache, n as u64, S))?;
    let counts = cache.counts();
    let (mut random, mut out) = (ChaCha12Rng::seed_from_u64(1), Vec::with_capacity(512));
    let present: Vec<Key> = (0..LOOK_UPS * 4)
        .map(|_| key(random.next_u64() % names as u64))
        .filter(|key| cache.get(key, 2 * S, &mut out).is_some())
        .take(LOOK_UPS)
        .collect();
    let absent: Vec<Key> = (0..LOOK_UPS).map(|n| key((names + n) as u64)).collect();
    let hit = look_up(&cache, &present);
    let miss = look_up(&cache, &absent);
    let shared = std::thread::scope(|scope| {
        let other = scope.spawn(|| look_up(&cache, &present));
        let own = look_up(&cache, &present);
        other.join().map_or(f64::NAN, |other| own.midpoint(other))
    });
    let renew = timed(LOOK_UPS, |n| put(&cache, (names - 1 - n % 1024) as u64, 3 * S))?;
    Ok(Row {
        entries: counts.entries,
        octets_per_entry: octets as f64 / counts.entries as f64,
        costs_ns: [hit, miss, insert, renew, shared],
    })
}

/// The nanoseconds that each turn of `work` takes: the median of many short stretches, so that pauses of the
/// machine do not count.
fn timed(turns: usize, mut work: impl FnMut(usize) -> Result<(), Overflow>) -> Result<f64, Overflow> {
    let mut stretches_ns = Vec::new();
    for stretch in 0..turns.div_ceil(STRETCH) {
        let start = Instant::now();
        for turn in stretch * STRETCH..(stretch + 1) * STRETCH {
            work(turn)?;
        }
        stretches_ns.push(start.elapsed().as_nanos() as f64 / STRETCH as f64);
    }
    Ok(median(stretches_ns))
}

/// The nanoseconds of a look-up, the keys taken in turn. They are warm, as if just made from a question; what
/// the cache holds for them is not, unless it is small.
fn look_up(cache: &Cache, keys: &[Key]) -> f64 {
    let (mut out, mut warm) = (Vec::with_capacity(512), Vec::with_capacity(STRETCH));
    let mut stretches_ns = Vec::new();
    for stretch in keys.chunks_exact(STRETCH) {
        warm.clear();
        warm.extend_from_slice(stretch);
        let start = Instant::now();
        for key in &warm {
            black_box(cache.get(black_box(key), 10 * S, &mut out));
        }
        stretches_ns.push(start.elapsed().as_nanos() as f64 / STRETCH as f64);
    }
    median(stretches_ns)
}

fn question(n: u64) -> Question {
    // Spread over the whole length of the label, so that names differ at both ends.
    let text = format!("h{:016x}.example.test", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let name = Name::from_text(&text).expect("a name of three short labels");
    Question { name, qtype: rtype::A, qclass: CLASS_IN }
}

fn key(n: u64) -> Key {
    Key::new(&question(n), false, false, 0)
}

/// Inserts the reply to the n-th question; its making is part of the time.
fn put(cache: &Cache, n: u64, now_ns: u64) -> Result<(), Overflow> {
    let question = question(n);
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, 1, Header::QR, &question)?;
    for host in 0..2 {
        writer.record(Section::Answer, &question.name, rtype::A, CLASS_IN, TTL_S, &[192, 0, 2, host])?;
    }
    let length = writer.finish();
    if let Ok(reply) = Message::parse(&buffer[..length]) {
        cache.insert(&Key::new(&question, false, false, 0), &reply, TTL_S, now_ns);
    }
    Ok(())
}
