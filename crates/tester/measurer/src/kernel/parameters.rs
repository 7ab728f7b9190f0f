//! The parameters of the programs for a trial: `struct parameters` of `bpf/measurer.h`, made from plan,
//! workload and path.

use std::net::{Ipv4Addr, SocketAddr};

use dns64::Prefix;
use dns64::names::{self, LABEL_LENGTH};
use dns64::wire::{HEADER_LENGTH, rtype};
use engine::pacer::{Model, SECOND_NS, Schedule};
use engine::workload::{Activity, Agent, Choice, Client, QUERY_OCTETS_MAX, QueryClass, Workload};
use zerocopy::{Immutable, IntoBytes};

use super::refusal::Refusal;
use crate::plan::Plan;
use sys::bpf::address_octets;
use sys::frame::{Template, whole_words, word_at};
use sys::link::Path;

/// As in `bpf/measurer.h`.
const FRAME_WORDS: usize = 21;
const QUESTION_WORDS: usize = 8;
const WORD_OCTETS: usize = 8;
/// The words and their tail.
const FRAME_MAX_OCTETS: usize = (FRAME_WORDS + 1) * WORD_OCTETS;

/// The longest suffix in wire format, in octets: with type and class it must fit [`QUESTION_WORDS`] and a
/// tail.
pub(super) const SUFFIX_MAX_OCTETS: usize = 64;
/// Queries leave from this port and those that follow, above those that the kernel gives to others by default
/// (`ip_local_port_range` ends at 60,999).
const FIRST_PORT: u16 = 61_440;
/// The number of ports from there on.
const PORTS_MAX: usize = 4096;
/// The most queries of a trial: the accounts have two bits for each.
pub(super) const QUERIES_MAX: u64 = 1 << 31;
/// The longest timeout: histograms reach a little further.
pub(super) const TIMEOUT_MAX_NS: u64 = 100 * SECOND_NS;
/// How many queries' sending times are remembered at most.
const SENT_MAX: u64 = 1 << 20;
/// Words of 64 bits in a cache line of 64 octets. Processors that write to one cache line hinder each other.
const CACHE_LINE_WORDS: u64 = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
struct QuestionWord {
    want: u64,
    keep: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
struct Halves {
    high: u64,
    low: u64,
}

/// The fields are explained in `bpf/measurer.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
pub(super) struct Parameters {
    frame: [u64; FRAME_WORDS],
    frame_tail: u64,
    question: [QuestionWord; QUESTION_WORDS],
    question_tail: QuestionWord,
    period_ns: u64,
    period_fraction: u64,
    step_ns: u64,
    step_rest: u64,
    rate_qps: u64,
    burst: u64,
    pub(super) lanes: u64,
    lane_factor: u64,
    lane_shift: u64,
    pub(super) lane_words: u64,
    pub(super) queries: u64,
    timeout_ns: u64,
    first_name: u64,
    agents: u64,
    name_mask: u64,
    network: u64,
    base_sum: u64,
    first_port: u64,
    port_mask: u64,
    port_bits: u64,
    prefix: Halves,
    native: Halves,
    native_percent: u64,
    high_shift: u64,
    low_shift: u64,
    low_mask: u64,
    pub(super) sent_mask: u64,
    sent_span_ns: u64,
    frame_words: u32,
    pub(super) frame_octets: u32,
    question_words: u32,
    suffix_at: u32,
    question_end: u32,
    is_ipv6: u32,
    expected: u32,
    device: u32,
    last_digits: u32,
    server_address: [u32; 4],
    server_port: u32,
    pub(super) windows: u32,
    padding: u32,
}

/// Only what follows from a query's number alone is done in the kernel.
fn check_workload(plan: &Plan, workload: &Workload, queries: u64) -> Result<(), Refusal> {
    let refused = [
        (
            !matches!(plan.model, Model::Constant | Model::Burst { .. }),
            "another load than a constant rate or bursts",
        ),
        (plan.log, "a list of all queries"),
        (matches!(workload.spec().variation.choice, Choice::Generated(_)), "questions from templates"),
        (!workload.is_by_name(), "names other than each of the range once"),
        (workload.spec().variation.types.only().is_none(), "queries of several types"),
        (workload.spec().variation.tsig.is_some(), "signed queries (TSIG)"),
        (workload.spec().variation.activity != Activity::InTurn, "clients that are not equally active"),
        (
            !differs_by_name_only(workload, queries),
            "queries that differ in more than the name (cookies, client subnets)",
        ),
    ];
    match refused.iter().find(|(is_so, _)| *is_so) {
        Some((_, which)) => Err(Refusal::Workload(which)),
        None => Ok(()),
    }
}

/// Whether the back-end can run a trial of this kind over `path` at all.
///
/// # Errors
/// What it cannot do.
pub fn check(plan: &Plan, workload: &Workload, path: &Path) -> Result<(), Refusal> {
    Parameters::new(plan, workload, path, 1).map(drop)
}

impl Parameters {
    /// Makes them, for so many lanes.
    pub(super) fn new(plan: &Plan, workload: &Workload, path: &Path, lanes: usize) -> Result<Self, Refusal> {
        let schedule = Schedule::with_model(0, plan.rate_qps, plan.duration_ns, plan.model);
        let lanes = lanes.max(1) as u64;
        check_workload(plan, workload, schedule.queries)?;
        let mut parameters = Self { lanes, device: path.device.index, ..Self::default() };
        parameters.set_schedule(&schedule, plan.timeout_ns)?;
        parameters.set_lanes();
        parameters.set_names(workload, &schedule)?;
        parameters.set_ports(plan.udp.sockets);
        parameters.set_frame(workload, path)?;
        parameters.set_answers(workload, path.server)?;
        Ok(parameters)
    }

    fn set_schedule(&mut self, schedule: &Schedule, timeout_ns: u64) -> Result<(), Refusal> {
        if timeout_ns > TIMEOUT_MAX_NS {
            return Err(Refusal::Timeout(timeout_ns));
        }
        if schedule.queries > QUERIES_MAX {
            return Err(Refusal::TooManyQueries(schedule.queries));
        }
        let rate = schedule.rate_qps;
        self.rate_qps = rate;
        self.burst = if let Model::Burst { queries } = schedule.model { queries.max(1).into() } else { 1 };
        self.queries = schedule.queries;
        self.timeout_ns = timeout_ns;
        self.period_ns = SECOND_NS / rate;
        // Rounded up: rounded down again with the product, the error stays below 1 ns for 2^32 queries.
        self.period_fraction = (u128::from(SECOND_NS % rate) << 32).div_ceil(u128::from(rate)) as u64;
        let step = self.lanes * SECOND_NS;
        (self.step_ns, self.step_rest) = (step / rate, step % rate);
        let windows = u32::try_from(engine::stats::Stats::windows_of(schedule));
        self.windows = windows.map_err(|_| Refusal::Workload("a trial of 49 days or more"))?;
        let in_time = schedule.due_within(timeout_ns.saturating_mul(5) / 4);
        let of_lane = in_time.min(SENT_MAX).div_ceil(self.lanes);
        let remembered = of_lane.next_power_of_two().max(CACHE_LINE_WORDS);
        self.sent_mask = remembered - 1;
        let spread = remembered.saturating_mul(self.lanes).saturating_sub(self.burst - 1);
        self.sent_span_ns = spread.saturating_mul(self.period_ns);
        Ok(())
    }

    /// How the sink finds the lane of a query, and which of its queries that is.
    fn set_lanes(&mut self) {
        // Rounded up, the factor makes the quotient exact for all numbers up to 2^31 (Granlund, Montgomery:
        // Division by invariant integers using multiplication, 1994, theorem 4.2), and the product fits.
        self.lane_shift = u64::from(QUERIES_MAX.ilog2() + self.lanes.next_power_of_two().ilog2());
        self.lane_factor = (1u64 << self.lane_shift).div_ceil(self.lanes);
        let words = self.queries.div_ceil(self.lanes).div_ceil(u64::BITS.into());
        self.lane_words = words.max(1).next_multiple_of(CACHE_LINE_WORDS);
    }

    fn set_names(&mut self, workload: &Workload, schedule: &Schedule) -> Result<(), Refusal> {
        let names = workload.spec().names;
        let needed = workload.names_needed(schedule.queries);
        if needed > names.size() {
            return Err(Refusal::NamesRepeat { needed, names: names.size() });
        }
        let Agent { index, agents } = workload.spec().variation.agent;
        self.first_name = workload.spec().first_name.wrapping_add(index.into());
        self.agents = agents.into();
        self.name_mask = names.size() - 1;
        self.network = u32::from(names.address(0)).into();
        Ok(())
    }

    fn set_ports(&mut self, sockets: usize) {
        let bits = sockets.clamp(1, PORTS_MAX).ilog2();
        self.first_port = FIRST_PORT.into();
        self.port_bits = bits.into();
        self.port_mask = (1 << bits) - 1;
    }

    fn set_frame(&mut self, workload: &Workload, path: &Path) -> Result<(), Refusal> {
        let suffix_octets = workload.spec().suffix.as_wire().len();
        if suffix_octets > SUFFIX_MAX_OCTETS {
            return Err(Refusal::Suffix(suffix_octets));
        }
        let source = SocketAddr::new(path.source, 0);
        let template = Template::new(path.source_mac, path.next_hop_mac, source, path.server)
            .ok_or(Refusal::Families(path.source, path.server))?;
        let dns_at = template.payload_offset();
        let mut frame = [0; FRAME_MAX_OCTETS];
        let query_octets = workload.query_octets();
        let payload = frame.get_mut(dns_at..dns_at + query_octets);
        workload.write(0, 0, payload.ok_or(Refusal::QueryOctets(query_octets))?);
        let label_at = dns_at + HEADER_LENGTH + 1;
        // The generator writes words: the label, and the octet that follows it.
        let after_label = std::mem::take(&mut frame[label_at + LABEL_LENGTH]);
        frame[label_at..label_at + LABEL_LENGTH].fill(0);
        template.complete(&mut frame, query_octets);
        let checksum_at = dns_at - 2;
        let checksum = u16::from_ne_bytes([frame[checksum_at], frame[checksum_at + 1]]);
        self.base_sum = (!checksum).into();
        self.last_digits = u32::from_ne_bytes([0, 0, 0, b'-' ^ after_label]);
        frame[label_at + LABEL_LENGTH] = after_label;
        self.frame_octets = (dns_at + query_octets) as u32;
        let end = self.frame_octets as usize;
        self.frame_words = whole_words(0, end) as u32;
        for (index, word) in self.frame.iter_mut().take(self.frame_words as usize).enumerate() {
            *word = word_at(&frame, index * WORD_OCTETS);
        }
        self.frame_tail = word_at(&frame, end - WORD_OCTETS);
        self.question_end = (dns_at + workload.question_end()) as u32;
        self.set_question(&frame, label_at);
        Ok(())
    }

    /// What follows the label.
    fn set_question(&mut self, frame: &[u8], label_at: usize) {
        let end = self.question_end as usize;
        let from = label_at + LABEL_LENGTH;
        let mut keep = [0; FRAME_MAX_OCTETS];
        keep[from..end].fill(0xff);
        // Type and class are no letters, whatever their octets are.
        let name = from..end - 4;
        for (keep, octet) in keep[name.clone()].iter_mut().zip(&frame[name]) {
            if octet.is_ascii_alphabetic() {
                *keep = !0x20;
            }
        }
        let word = |at: usize| {
            let keep = word_at(&keep, at);
            QuestionWord { want: word_at(frame, at) & keep, keep }
        };
        // The suffix, type and class may be shorter than a word.
        let from = from.min(end - WORD_OCTETS);
        self.suffix_at = from as u32;
        self.question_words = whole_words(from, end) as u32;
        for (index, place) in self.question.iter_mut().take(self.question_words as usize).enumerate() {
            *place = word(from + index * WORD_OCTETS);
        }
        self.question_tail = word(end - WORD_OCTETS);
    }

    fn set_answers(&mut self, workload: &Workload, server: SocketAddr) -> Result<(), Refusal> {
        let spec = workload.spec();
        self.expected = expected(workload);
        self.is_ipv6 = u32::from(server.is_ipv6());
        let address = address_octets(server.ip());
        let (words, _) = address.as_chunks::<4>();
        for (to, octets) in self.server_address.iter_mut().zip(words) {
            *to = u32::from_ne_bytes(*octets);
        }
        self.server_port = server.port().to_be().into();
        self.prefix = halves(spec.prefix);
        let length_bits = spec.prefix.length_bits();
        if let Some((percent, prefix)) = spec.native {
            if prefix.length_bits() != length_bits {
                return Err(Refusal::PrefixLengths(spec.prefix, prefix));
            }
            self.native_percent = percent.into();
            self.native = halves(prefix);
        }
        (self.high_shift, self.low_shift, self.low_mask) = spec.prefix.embedding();
        Ok(())
    }
}

/// What the sink takes for right: `EXPECT_...` in `bpf/measurer.h`.
fn expected(workload: &Workload) -> u32 {
    let variation = &workload.spec().variation;
    match variation.types.only() {
        _ if variation.class != QueryClass::default() => 2,
        Some(rtype::AAAA) if !variation.any_response => 0,
        Some(rtype::A) if !variation.any_response => 1,
        _ => 2,
    }
}

/// Whether queries, of which some are tried, are the first one with another name.
fn differs_by_name_only(workload: &Workload, queries: u64) -> bool {
    const SOURCES: u64 = 3;
    let label = HEADER_LENGTH + 1..HEADER_LENGTH + 1 + LABEL_LENGTH;
    let write = |n: u64, source: u64| {
        let mut buffer = [0; QUERY_OCTETS_MAX];
        let client = Client { source, ..Client::default() };
        let length = workload.write_from(n, 0, &client, &mut buffer);
        buffer[label.clone()].fill(0);
        (length, buffer)
    };
    let tried = [0, 1, 2, queries / 2, queries.saturating_sub(1)];
    tried.into_iter().all(|n| (0..SOURCES).all(|source| write(n, source) == write(0, 0)))
}

fn halves(prefix: Prefix) -> Halves {
    let bits = prefix.address().to_bits();
    Halves { high: (bits >> 64) as u64, low: bits as u64 }
}

/// The label's text for each octet, with the '-' that follows.
pub(super) fn digits() -> Vec<u8> {
    let text_of = |octet: u8| {
        let mut label = [0; LABEL_LENGTH];
        names::write_label(Ipv4Addr::new(octet, 0, 0, 0), &mut label);
        [label[0], label[1], label[2], label[3]]
    };
    (0..=u8::MAX).flat_map(text_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_laid_out_as_in_the_program() {
        sys::assert_layout!(objects::MEASURER, "question_word", QuestionWord { want, keep });
        sys::assert_layout!(objects::MEASURER, "prefix", Halves { high, low });
        sys::assert_layout!(
            objects::MEASURER,
            "parameters",
            Parameters {
                frame,
                frame_tail,
                question,
                question_tail,
                period_ns,
                period_fraction,
                step_ns,
                step_rest,
                rate_qps,
                burst,
                lanes,
                lane_factor,
                lane_shift,
                lane_words,
                queries,
                timeout_ns,
                first_name,
                agents,
                name_mask,
                network,
                base_sum,
                first_port,
                port_mask,
                port_bits,
                prefix,
                native,
                native_percent,
                high_shift,
                low_shift,
                low_mask,
                sent_mask,
                sent_span_ns,
                frame_words,
                frame_octets,
                question_words,
                suffix_at,
                question_end,
                is_ipv6,
                expected,
                device,
                last_digits,
                server_address,
                server_port,
                windows,
                padding,
            }
        );
    }

    proptest! {
        #[test]
        fn the_halves_hold_what_rfc_6052_says(
            ipv4: u32, length in prop::sample::select(vec![32u8, 40, 48, 56, 64, 96])
        ) {
            let prefix = Prefix::new("2001:db8::".parse().unwrap(), length).unwrap();
            let (high_shift, low_shift, low_mask) = prefix.embedding();
            let (Halves { high, low }, ipv4) = (halves(prefix), u64::from(ipv4));
            let bits = u128::from(high | ipv4 >> high_shift) << 64
                | u128::from(low | (ipv4 & low_mask) << low_shift);
            prop_assert_eq!(std::net::Ipv6Addr::from(bits), prefix.embed((ipv4 as u32).into()));
        }

        #[test]
        fn the_sink_knows_the_schedule_to_a_nanosecond(rate_qps in 1u64..20_000_000, n in 0u64..1 << 31) {
            let mut parameters = Parameters { lanes: 3, ..Parameters::default() };
            let schedule = Schedule::new(0, rate_qps, SECOND_NS / 100);
            parameters.set_schedule(&schedule, SECOND_NS).unwrap();
            let due = n * parameters.period_ns + ((n * parameters.period_fraction) >> 32);
            prop_assert!(due.abs_diff(schedule.due_ns(n)) <= 1);
            // A lane's steps add up without an error.
            let ns = u128::from(n) * u128::from(parameters.step_ns)
                + u128::from(n) * u128::from(parameters.step_rest) / u128::from(rate_qps);
            prop_assert_eq!(ns as u64, schedule.due_ns(3 * n));
        }

        #[test]
        fn the_sink_knows_when_a_burst_is_due(
            rate_qps in 1u64..20_000_000, queries in 1u32..2000, n in 0u64..1 << 31
        ) {
            let mut parameters = Parameters { lanes: 1, ..Parameters::default() };
            let schedule = Schedule::with_model(0, rate_qps, SECOND_NS / 100, Model::Burst { queries });
            parameters.set_schedule(&schedule, SECOND_NS).unwrap();
            let first = n - n % parameters.burst;
            let due = first * parameters.period_ns + ((first * parameters.period_fraction) >> 32);
            prop_assert!(due.abs_diff(schedule.due_ns(n)) <= 1);
        }

        #[test]
        fn the_sink_knows_the_lane_of_a_query(n in 0..QUERIES_MAX, lanes in 1u64..=1024) {
            let mut parameters = Parameters { lanes, queries: n + 1, ..Parameters::default() };
            parameters.set_lanes();
            let index = n.checked_mul(parameters.lane_factor).unwrap() >> parameters.lane_shift;
            prop_assert_eq!(index, n / lanes);
            prop_assert!(index / 64 < parameters.lane_words);
        }

        #[test]
        fn the_sink_ignores_case_in_the_name_and_nothing_else(length in 0usize..=60, qtype: u16) {
            let (label_at, suffix) = (55, [&[b'S'; 61][..length], &[0]].concat());
            let mut frame = [0u8; FRAME_MAX_OCTETS];
            let question = label_at + LABEL_LENGTH;
            let end = question + suffix.len() + 4;
            frame[question..end - 4].copy_from_slice(&suffix);
            frame[end - 4..end].copy_from_slice(&[qtype.to_be_bytes(), [0, 1]].concat());
            let mut parameters = Parameters { question_end: end as u32, ..Parameters::default() };
            parameters.set_question(&frame, label_at);
            let words = &parameters.question[..parameters.question_words as usize];
            let at = parameters.suffix_at as usize;
            let places = words.iter().enumerate().map(|(index, word)| (at + index * WORD_OCTETS, word));
            let places: Vec<_> = places.chain([(end - WORD_OCTETS, &parameters.question_tail)]).collect();
            let is_taken = |reply: &[u8]| places.iter().all(|(at, word)| word_at(reply, *at) & word.keep == word.want);
            prop_assert!(is_taken(&frame));
            frame[question..end - 4].make_ascii_lowercase();
            prop_assert!(is_taken(&frame));
            for at in question..end {
                for bit in (0..8).filter(|bit| at >= end - 4 || *bit != 5 || frame[at] == 0) {
                    let mut other = frame;
                    other[at] ^= 1 << bit;
                    prop_assert!(!is_taken(&other), "octet {at}, bit {bit}");
                }
            }
        }

        #[test]
        fn words_and_their_tail_cover_a_range_exactly(from in 0usize..90, length in 8usize..80) {
            let end = from + length;
            let words = whole_words(from, end);
            prop_assert!(words * WORD_OCTETS < length && (words + 1) * WORD_OCTETS >= length);
        }
    }

    #[test]
    fn each_octet_has_its_text() {
        let digits = digits();
        assert_eq!(&digits[..8], b"000-001-");
        assert_eq!(&digits[1020..], b"255-");
    }
}
