//! The program in the kernel as the reader of an answer that is written, run on single frames without a
//! device (`BPF_PROG_TEST_RUN`).

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::bypass::program::BypassPlace;
use sys::bpf::{ProgramFd, TestRun, run_once};
use sys::frame::{Template, has_valid_checksums, parse};

/// `enum xdp_action` of linux/bpf.h.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const ANSWERS_OF_TEST: usize = 8;
/// Queries that meet a writer who never rests.
const QUERIES: usize = 100_000;

/// The program, ready to repeat answers, and the memory of worker 0.
struct Program {
    program: ProgramFd,
    repeats: Repeats,
}

impl Program {
    /// `None` where there is no XDP.
    fn load(listener: SocketAddr) -> Option<Self> {
        if let Err(why) = sys::bpf::available() {
            testing::skip("xdp", why);
            return None;
        }
        let mut object = BypassPlace::new(MACS[0], 1, 2048, ANSWERS_OF_TEST).load(1, 1).unwrap();
        let table = Arc::new(BypassTable::new(object.take_map("table").unwrap()).unwrap());
        table.set_listeners(&[listener]);
        assert!(table.repeat_to(&["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()], 1));
        let shared = Shared::new(object.take_map("answers").unwrap(), words(ANSWERS_OF_TEST)).unwrap();
        let repeats = Repeats::new(Arc::new(shared), table, 0, ANSWERS_OF_TEST);
        Some(Self { program: object.program_fd("bypass").unwrap(), repeats })
    }

    fn run(&self, frame: &[u8]) -> TestRun {
        run_once(self.program.as_fd(), frame).unwrap()
    }
}

/// A query for the name of one letter, and an answer whose text is that letter throughout.
fn conversation(letter: u8) -> (Vec<u8>, Vec<u8>) {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, letter, 0];
    query.extend([0, 28, 0, 1]);
    let mut answer = query.clone();
    (answer[2], answer[7]) = (0x81, 1);
    answer.extend([letter; 8 * TEXT_WORDS]);
    (query, answer)
}

fn write_answer(words: &[AtomicU64], letter: u8) {
    let (query, answer) = conversation(letter);
    let until_ns = sys::clock::monotonic_ns() + 3_600_000_000_000;
    let repeatable = Repeatable { query: &query, answer: &answer, until_ns, epoch: 1, class: 0 };
    let asked = QueryKey::of(&query).unwrap();
    asked.write(words, &repeatable, asked.text(&repeatable).unwrap());
}

fn frame_of(query: &[u8], listener: SocketAddr, client: SocketAddr) -> Vec<u8> {
    let template = Template::new(MACS[1], MACS[0], client, listener).unwrap();
    let mut frame = vec![0; 200];
    let at = template.payload_offset();
    frame[at..at + query.len()].copy_from_slice(query);
    let octets = template.complete(&mut frame, query.len());
    frame.truncate(octets);
    frame
}

const ENDS: [[&str; 2]; 2] = [["192.0.2.1:53", "192.0.2.2:4000"], ["[2001:db8::1]:53", "[2001:db8::2]:4000"]];

#[test]
fn an_answer_in_the_midst_of_being_written_is_not_repeated() {
    for [listener, client] in ENDS.map(|ends| ends.map(|end| end.parse::<SocketAddr>().unwrap())) {
        let Some(program) = Program::load(listener) else { return };
        let (query, answer) = conversation(b'a');
        let slot = QueryKey::of(&query).unwrap().hash() as usize & (ANSWERS_OF_TEST - 1);
        let frame = frame_of(&query, listener, client);
        for slot in [slot, slot ^ 1] {
            let words = program.repeats.answer(slot);
            assert_eq!(program.run(&frame), TestRun { action: XDP_PASS, frame: frame.clone() });
            write_answer(words, b'a');
            let answered = program.run(&frame);
            assert_eq!(answered.action, XDP_TX);
            assert!(has_valid_checksums(&answered.frame));
            assert_eq!(parse(&answered.frame).unwrap().payload, answer);
            // The writer has begun and stands still.
            words[SERIAL].fetch_add(1, Ordering::SeqCst);
            assert_eq!(program.run(&frame), TestRun { action: XDP_PASS, frame: frame.clone() });
            words[SERIAL].fetch_add(1, Ordering::SeqCst);
            assert_eq!(program.run(&frame), answered);
            // It has ended in the midst; the next one writes all the same.
            words[SERIAL].fetch_add(1, Ordering::SeqCst);
            write_answer(words, b'a');
            assert_eq!(program.run(&frame), answered);
            words[UNTIL].store(0, Ordering::SeqCst);
        }
        assert_eq!(program.repeats.table.given(0)[0], 6);
    }
}

#[test]
fn while_an_answer_is_replaced_nobody_gets_anothers_records() {
    let [listener, client] = ENDS[1].map(|end| end.parse::<SocketAddr>().unwrap());
    let Some(program) = Program::load(listener) else { return };
    let (query, answer) = conversation(b'a');
    let slot = QueryKey::of(&query).unwrap().hash() as usize & (ANSWERS_OF_TEST - 1);
    let (frame, words) = (frame_of(&query, listener, client), program.repeats.answer(slot));
    let done = AtomicBool::new(false);
    let mut actions = [0; 4];
    let is_right = |run: &TestRun| match run.action {
        XDP_TX => parse(&run.frame).unwrap().payload == answer && has_valid_checksums(&run.frame),
        XDP_PASS => run.frame == frame,
        action => action == XDP_DROP,
    };
    let wrong = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                write_answer(words, b'b');
                write_answer(words, b'a');
            }
        });
        let wrong = (0..QUERIES).find_map(|_| {
            let run = program.run(&frame);
            actions[run.action as usize] += 1;
            (!is_right(&run)).then_some(run)
        });
        done.store(true, Ordering::Relaxed);
        wrong
    });
    assert_eq!(wrong, None);
    assert!(actions[XDP_TX as usize] > 0 && actions[XDP_PASS as usize] > 0, "{actions:?}");
}
