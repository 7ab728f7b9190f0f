//! The writer and the program's reader of one answer under a model checker, which tries every order of their
//! operations that the memory model of Rust allows. Writer and layout are the real ones; the reader is `find`
//! and `repeat` of `bpf/repeat.h`.

use std::sync::atomic::AtomicUsize;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64 as ModelWord;
use loom::thread;

use super::*;

impl Word for ModelWord {
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_or(bits, order)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }

    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

type Answer = [ModelWord];

/// Switches from one thread to the other in the midst of it, per run.
const PREEMPTIONS: usize = 3;
const FAR_NS: u64 = 1 << 40;
const EPOCH_NOW: u64 = 5;

/// A query for the name of one letter, and an answer whose text is that letter throughout.
fn conversation(letter: u8) -> (Vec<u8>, Vec<u8>) {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, letter, 0];
    query.extend([0, 28, 0, 1]);
    let mut answer = query.clone();
    (answer[2], answer[7]) = (0x81, 1);
    answer.extend([letter; 24]);
    (query, answer)
}

fn asked(letter: u8) -> QueryKey {
    QueryKey::of(&conversation(letter).0).unwrap()
}

fn write_answer(words: &Answer, letter: u8) {
    let (query, answer) = conversation(letter);
    let repeatable =
        Repeatable { query: &query, answer: &answer, until_ns: FAR_NS, epoch: EPOCH_NOW, class: 0 };
    let asked = asked(letter);
    asked.write(words, &repeatable, asked.text(&repeatable).unwrap());
}

fn is_for(words: &Answer, asked: &QueryKey) -> bool {
    let load = |at: usize| words[at].load(Ordering::Relaxed);
    // The names differ in the second word of the key; the others are the same in both.
    load(UNTIL) > 0 && load(EPOCH) == EPOCH_NOW && load(KEY + 1) == asked.key[1]
}

/// The first and the last words of the text.
fn text(words: &Answer) -> [u64; 2] {
    [TEXT, TEXT + 2].map(|at| words[at].load(Ordering::Relaxed))
}

/// As the program reads.
fn serial_first(words: &Answer, asked: &QueryKey) -> Option<[u64; 2]> {
    sequence::read(&words[SERIAL], || is_for(words, asked).then(|| text(words)))
}

/// A reader that compares the key before it takes the serial number.
fn key_first(words: &Answer, asked: &QueryKey) -> Option<[u64; 2]> {
    if !is_for(words, asked) {
        return None;
    }
    sequence::read(&words[SERIAL], || Some(text(words)))
}

/// A reader that does not care whether the serial number is odd, as if the writer counted once, before it
/// writes.
fn odd_or_even(words: &Answer, asked: &QueryKey) -> Option<[u64; 2]> {
    let before = words[SERIAL].fetch_or(0, Ordering::AcqRel);
    let text = is_for(words, asked).then(|| text(words))?;
    (words[SERIAL].fetch_or(0, Ordering::AcqRel) | 1 == before | 1).then_some(text)
}

/// One thread replaces the answer for `a` by that for `b`; another asks for `letter` meanwhile. Nobody may
/// get a text that is not wholly that of the name asked. Returns in how many of all runs the asking thread
/// had nothing, and had an answer.
fn nobody_gets_anothers_records(letter: u8, read: fn(&Answer, &QueryKey) -> Option<[u64; 2]>) -> [usize; 2] {
    let outcomes = std::sync::Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = outcomes.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let words: Arc<Vec<ModelWord>> = Arc::new((0..WORDS).map(|_| ModelWord::new(0)).collect());
        write_answer(&words, b'a');
        let reader = thread::spawn({
            let words = words.clone();
            move || read(&words, &asked(letter))
        });
        write_answer(&words, b'b');
        let own = [u64::from_ne_bytes([letter; 8]); 2];
        let answer = reader.join().unwrap();
        counted[usize::from(answer.is_some())].fetch_add(1, Ordering::Relaxed);
        if let Some(text) = answer {
            assert_eq!(text, own, "another name's records");
        }
        assert_eq!(serial_first(&words, &asked(b'b')), Some([u64::from_ne_bytes([b'b'; 8]); 2]));
    });
    [0, 1].map(|outcome| outcomes[outcome].load(Ordering::Relaxed))
}

#[test]
fn with_the_serial_number_first_nobody_gets_anothers_records() {
    for letter in *b"ab" {
        let outcomes = nobody_gets_anothers_records(letter, serial_first);
        assert!(outcomes.iter().all(|&runs| runs > 0), "nothing and an answer: {outcomes:?} runs");
    }
}

#[test]
#[should_panic(expected = "another name's records")]
fn with_the_key_first_somebody_does() {
    nobody_gets_anothers_records(b'a', key_first);
}

#[test]
#[should_panic(expected = "another name's records")]
fn without_an_odd_number_somebody_does() {
    nobody_gets_anothers_records(b'b', odd_or_even);
}
