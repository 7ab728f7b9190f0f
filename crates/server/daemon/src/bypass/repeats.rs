//! Answers that the program repeats by itself to the same query: `struct answer` of `bpf/repeat.h`, in memory
//! that it and the process share.
//!
//! Every worker has its own, which the program gives to queries of that worker's queues alone. So each is
//! written by one thread, under a sequence lock ([`super::sequence`]): the program repeats an answer only if
//! nothing of it changed from before it compared the query until after it copied the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sequence::{self, Word};
use super::table::BypassTable;
use sys::bpf::Shared;
use sys::frame::{fold, sum};

/// Answers of all workers of a device together, and of one worker at most and at least, 512 octets each.
const ANSWERS: usize = 32_768;
const ANSWERS_MAX: usize = 8192;
const ANSWERS_MIN: usize = 512;
/// An answer whose time is over is replaced only after so much more time. The program has sent an answer that
/// it found in time by then; if it has not, it finds another serial number and drops the query's frame, which
/// it has written to by then.
const GRACE_NS: u64 = 10_000_000;

/// As in `bpf/repeat.h`.
const HEADER_OCTETS: usize = 12;
const ID_OCTETS: usize = 2;
const HEAD_OCTETS: usize = HEADER_OCTETS - ID_OCTETS;
const KEY_WORDS: usize = 14;
const TAIL_WORDS: usize = 2;
const TYPE_AND_CLASS_OCTETS: usize = 4;
const OPT_OCTETS: usize = 11;
const TEXT_WORDS: usize = 41;

/// The words of `struct answer`.
const UNTIL: usize = 0;
const SERIAL: usize = 1;
const EPOCH: usize = 2;
const LENGTHS: usize = 3;
const SUM: usize = 4;
const TAIL: usize = 5;
const HEAD: usize = TAIL + TAIL_WORDS;
const KEY: usize = HEAD + 2;
const TEXT: usize = KEY + KEY_WORDS;
const WORDS: usize = TEXT + TEXT_WORDS;

/// An answer that may be repeated to whoever asks the same, in whatever letter case.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'m> {
    /// The query: one question, and at most an OPT record without options.
    pub query: &'m [u8],
    /// Its answer, with the question as it was asked.
    pub answer: &'m [u8],
    /// When it must not be given any more, in ns of the monotonic clock.
    pub until_ns: u64,
    /// [`BypassTable::epoch`] of the time when the answer was made.
    pub epoch: u64,
    /// Which of the worker's counts it adds to: see [`BypassTable::given`].
    pub class: u8,
}

/// The answers of one worker.
pub(super) struct Repeats {
    shared: Arc<Shared>,
    table: Arc<BypassTable>,
    first: usize,
    /// A power of two.
    answers: usize,
}

/// How many answers each of so many workers has, a power of two.
pub(super) fn answers_of_each(workers: usize) -> usize {
    (ANSWERS / workers.max(1).next_power_of_two()).clamp(ANSWERS_MIN, ANSWERS_MAX)
}

/// The words of all answers.
pub(super) fn words(answers: usize) -> usize {
    answers * WORDS
}

impl Repeats {
    pub(super) fn new(shared: Arc<Shared>, table: Arc<BypassTable>, worker: usize, answers: usize) -> Self {
        Self { shared, table, first: worker * answers, answers }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    /// See [`super::BypassRing::remember`].
    pub(super) fn remember(&self, now_ns: u64, repeatable: &Repeatable<'_>) -> bool {
        let Some(asked) = QueryKey::of(repeatable.query) else { return false };
        let Some(text) = asked.text(repeatable) else { return false };
        let slot = asked.hash() as usize & (self.answers - 1);
        let ways = [slot, slot ^ 1].map(|slot| self.answer(slot));
        let is_live = |words: &[AtomicU64]| {
            words[EPOCH].load(Ordering::Relaxed) == repeatable.epoch
                && words[UNTIL].load(Ordering::Relaxed) + GRACE_NS > now_ns
        };
        let is_known = |words: &[AtomicU64]| is_live(words) && asked.is_at(words);
        if ways.iter().any(|words| is_known(words)) {
            return false;
        }
        let Some(words) = ways.into_iter().find(|words| !is_live(words)) else { return false };
        asked.write(words, repeatable, text);
        true
    }

    fn answer(&self, slot: usize) -> &[AtomicU64] {
        &self.shared.words()[(self.first + slot) * WORDS..][..WORDS]
    }
}

/// A query as the program compares it.
struct QueryKey {
    key: [u64; KEY_WORDS],
    tail: [u64; TAIL_WORDS],
    key_octets: usize,
    question_octets: usize,
}

impl QueryKey {
    /// `None` if it is longer than the program takes, or has another form.
    fn of(query: &[u8]) -> Option<Self> {
        let key_octets = query.get(ID_OCTETS..)?.len();
        let counts: &[u8; 8] = query.get(4..HEADER_OCTETS)?.try_into().ok()?;
        let behind = match counts {
            [0, 1, 0, 0, 0, 0, 0, 0] => 0,
            [0, 1, 0, 0, 0, 0, 0, 1] => OPT_OCTETS,
            _ => return None,
        };
        let end = query.len().checked_sub(behind)?;
        if key_octets > 8 * KEY_WORDS
            || !is_question(query.get(HEADER_OCTETS..end)?)
            || !is_opt(&query[end..])
        {
            return None;
        }
        let mut key = [0; 8 * KEY_WORDS];
        key[..key_octets].copy_from_slice(&query[ID_OCTETS..]);
        key[HEAD_OCTETS..key_octets].make_ascii_lowercase();
        let mut tail = [0; 8 * TAIL_WORDS];
        let octets = TYPE_AND_CLASS_OCTETS + behind;
        tail[8 * TAIL_WORDS - octets..].copy_from_slice(&query[query.len() - octets..]);
        Some(Self {
            key: words_of(&key),
            tail: words_of(&tail),
            key_octets,
            question_octets: end - HEADER_OCTETS,
        })
    }

    /// As `hash_of` of `bpf/repeat.h`.
    fn hash(&self) -> u32 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = self.key_octets as u64;
        for word in self.key {
            hash = (hash ^ word).wrapping_mul(FACTOR);
        }
        for word in self.tail {
            hash = (hash ^ (hash >> 32) ^ word).wrapping_mul(FACTOR);
        }
        (hash >> 32) as u32
    }

    /// What follows the question in the answer, if it is one to this query and there is room for it.
    fn text<'m>(&self, repeatable: &Repeatable<'m>) -> Option<&'m [u8]> {
        let (query, answer) = (repeatable.query, repeatable.answer);
        let end = HEADER_OCTETS + self.question_octets;
        let (asked, answered) = (query.get(HEADER_OCTETS..end)?, answer.get(HEADER_OCTETS..end)?);
        let is_answer =
            answer[..ID_OCTETS] == query[..ID_OCTETS] && answer[4..6] == [0, 1] && asked == answered;
        let text = &answer[end..];
        (is_answer && !text.is_empty() && text.len() <= 8 * TEXT_WORDS).then_some(text)
    }

    fn lengths(&self, text_octets: usize, class: u8) -> u64 {
        let mut octets = [0; 8];
        octets[..2].copy_from_slice(&(self.key_octets as u16).to_ne_bytes());
        octets[2..4].copy_from_slice(&(text_octets as u16).to_ne_bytes());
        octets[4..6].copy_from_slice(&u16::from(class).to_ne_bytes());
        u64::from_ne_bytes(octets)
    }

    fn is_at(&self, words: &[AtomicU64]) -> bool {
        let same = |at: usize, wanted: &[u64]| {
            words[at..].iter().zip(wanted).all(|(word, &wanted)| word.load(Ordering::Relaxed) == wanted)
        };
        // Equal keys are equally long: a question says where it ends.
        same(TAIL, &self.tail) && same(KEY, &self.key)
    }

    fn write<W: Word>(&self, words: &[W], repeatable: &Repeatable<'_>, text: &[u8]) {
        let put = |at: usize, octets: &[u8]| {
            for (word, octets) in words[at..].iter().zip(octets.chunks(8)) {
                let mut whole = [0; 8];
                whole[..octets.len()].copy_from_slice(octets);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
        };
        let put_words = |at: usize, values: &[u64]| {
            for (word, &value) in words[at..].iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
        };
        sequence::write(&words[SERIAL], || {
            put_words(UNTIL, &[repeatable.until_ns]);
            put_words(EPOCH, &[repeatable.epoch]);
            put_words(LENGTHS, &[self.lengths(text.len(), repeatable.class)]);
            put_words(SUM, &[self.difference(repeatable, text)]);
            put_words(TAIL, &self.tail);
            put_words(KEY, &self.key);
            put(HEAD, &repeatable.answer[ID_OCTETS..HEADER_OCTETS]);
            put(TEXT, text);
        });
    }

    /// What the answer's octets add to the checksum beyond the query's; the question is in both.
    fn difference(&self, repeatable: &Repeatable<'_>, text: &[u8]) -> u64 {
        // A text at an odd place stands so in the sum as well.
        let odd = self.question_octets % 2;
        let behind = |octets: &[u8]| {
            let mut padded = vec![0; odd];
            padded.extend_from_slice(octets);
            sum(&padded)
        };
        let (query, answer) = (repeatable.query, repeatable.answer);
        let of_query =
            sum(&query[ID_OCTETS..HEADER_OCTETS]) + behind(&query[HEADER_OCTETS + self.question_octets..]);
        let of_answer = sum(&answer[ID_OCTETS..HEADER_OCTETS]) + behind(text);
        // The complement of a sum is what takes it away (RFC 1071 1).
        of_answer + u64::from(u16::from_ne_bytes(fold(of_query)))
    }
}

/// Whether the octets are a name in full, with its type and class behind it.
fn is_question(octets: &[u8]) -> bool {
    let Some(name) = octets.len().checked_sub(TYPE_AND_CLASS_OCTETS).map(|end| &octets[..end]) else {
        return false;
    };
    let mut rest = name;
    while let [label @ 1..=63, behind @ ..] = rest {
        let Some(next) = behind.get(usize::from(*label)..) else { return false };
        rest = next;
    }
    rest == [0]
}

/// Whether the octets are nothing, or an OPT record without options (RFC 6891 6.1.2).
fn is_opt(octets: &[u8]) -> bool {
    matches!(octets, [] | [0, 0, 41, _, _, _, _, _, _, 0, 0])
}

fn words_of<const N: usize>(octets: &[u8]) -> [u64; N] {
    let (words, _) = octets.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod program;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use sys::bpf::layout::Layout;

    fn query(name: &[u8], counts: [u8; 8], behind: &[u8]) -> Vec<u8> {
        let mut query = vec![7, 8, 1, 0];
        query.extend_from_slice(&counts);
        query.extend_from_slice(name);
        query.extend_from_slice(&[0, 28, 0, 1]);
        query.extend_from_slice(behind);
        query
    }

    const PLAIN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    const WITH_OPT: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 1];
    const OPT: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];

    #[test]
    fn letter_case_is_of_no_account_in_the_name_and_only_there() {
        let asked = |query: &[u8]| QueryKey::of(query).map(|asked| (asked.key, asked.tail, asked.hash()));
        let lower = query(b"\x01a\x02bc\x00", WITH_OPT, &OPT);
        let mut upper = lower.clone();
        upper[HEADER_OCTETS..HEADER_OCTETS + 6].make_ascii_uppercase();
        assert_ne!(lower, upper);
        assert_eq!(asked(&lower), asked(&upper));
        // Type 65 (HTTPS) is no type 97.
        let types = [65, 97].map(|number| {
            let mut query = query(b"\x01a\x00", PLAIN, &[]);
            let at = query.len() - 3;
            query[at] = number;
            asked(&query).unwrap()
        });
        assert_eq!(types[0].0, types[1].0);
        assert_ne!((types[0].1, types[0].2), (types[1].1, types[1].2));
    }

    #[test]
    fn only_a_question_with_at_most_a_plain_opt_record_is_taken() {
        assert!(QueryKey::of(&query(b"\x01a\x00", PLAIN, &[])).is_some());
        assert!(QueryKey::of(&query(b"\x00", PLAIN, &[])).is_some());
        let long = [&[63; 64][..], &[31; 32], &[0]].concat();
        assert!(QueryKey::of(&query(&long, PLAIN, &[])).is_some());
        for (name, counts, behind) in [
            (&b"\x01a\x00"[..], PLAIN, &OPT[..]),
            (b"\x01a\x00", WITH_OPT, &[]),
            (b"\x01a\x00", [0, 1, 0, 1, 0, 0, 0, 0], &[]),
            (b"\x01a\x00", [0, 2, 0, 0, 0, 0, 0, 0], &[]),
            (b"\x01a\x00", WITH_OPT, &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4]),
            (b"\x01a\x00", WITH_OPT, &[0, 0, 1, 4, 208, 0, 0, 0, 0, 0, 0]),
            (b"\x02a\x00", PLAIN, &[]),
            (b"\x01a", PLAIN, &[]),
            (b"\xc0\x0c", PLAIN, &[]),
            (b"", PLAIN, &[]),
            (&[&[63; 64][..], &[40; 41], &[0]].concat(), PLAIN, &[]),
        ] {
            assert!(
                QueryKey::of(&query(name, counts, behind)).is_none(),
                "{name:02x?} {counts:?} {behind:02x?}"
            );
        }
        for length in 0..20 {
            assert!(QueryKey::of(&query(b"\x06abcdef\x00", PLAIN, &[])[..length]).is_none());
        }
    }

    #[test]
    fn an_answer_is_one_to_this_query_and_has_room() {
        let query = query(b"\x01a\x00", PLAIN, &[]);
        let asked = QueryKey::of(&query).unwrap();
        let text = |answer: &[u8]| {
            let repeatable = Repeatable { query: &query, answer, until_ns: 1, epoch: 1, class: 0 };
            asked.text(&repeatable).map(<[u8]>::len)
        };
        let answer = [&query[..], &[9; 28]].concat();
        assert_eq!(text(&answer), Some(28));
        assert_eq!(text(&[&query[..], &[9; 8 * TEXT_WORDS]].concat()), Some(8 * TEXT_WORDS));
        assert_eq!(text(&[&query[..], &[9; 8 * TEXT_WORDS + 1]].concat()), None);
        assert_eq!(text(&query), None);
        for other in [0, 5, 13] {
            let mut answer = answer.clone();
            answer[other] ^= 1;
            assert_eq!(text(&answer), None, "octet {other}");
        }
    }

    #[test]
    fn the_difference_makes_the_answers_checksum_of_the_querys() {
        for name in [&b"\x01a\x00"[..], b"\x02ab\x00"] {
            let query = query(name, WITH_OPT, &OPT);
            let asked = QueryKey::of(&query).unwrap();
            let end = HEADER_OCTETS + asked.question_octets;
            let mut answer = query[..end].to_vec();
            answer[2] |= 0x80;
            answer[7] = 2;
            answer.extend((0..61u8).map(|n| n.wrapping_mul(37)));
            let repeatable = Repeatable { query: &query, answer: &answer, until_ns: 1, epoch: 1, class: 0 };
            let difference = asked.difference(&repeatable, asked.text(&repeatable).unwrap());
            assert_eq!(fold(sum(&query) + difference), fold(sum(&answer)));
        }
    }

    #[test]
    fn the_layout_is_that_of_the_program() {
        let layout = Layout::of(objects::BYPASS, "answer").unwrap();
        // Three lengths stand in one word: see `QueryKey::lengths`.
        let expected = [
            ("until_ns", 8 * UNTIL),
            ("serial", 8 * SERIAL),
            ("epoch", 8 * EPOCH),
            ("key_octets", 8 * LENGTHS),
            ("text_octets", 8 * LENGTHS + 2),
            ("class", 8 * LENGTHS + 4),
            ("unused", 8 * LENGTHS + 6),
            ("sum", 8 * SUM),
            ("tail", 8 * TAIL),
            ("head", 8 * HEAD),
            ("key", 8 * KEY),
            ("text", 8 * TEXT),
        ];
        assert_eq!((layout.offsets(), layout.octets), (expected.to_vec(), 8 * WORDS));
    }

    #[test]
    fn workers_share_the_memory_for_answers() {
        assert_eq!([1, 2, 4, 5, 64, 256].map(answers_of_each), [8192, 8192, 8192, 4096, 512, 512]);
    }
}
