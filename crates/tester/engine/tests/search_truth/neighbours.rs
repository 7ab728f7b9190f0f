//! Others on the machine of Tester and server: a hypervisor that takes both processors away, as recorded, and
//! another program. The server has the first processor, the Tester the second one.

use engine::trial::LoadSample;
use record::random::Sequence;

/// The other program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    None,
    /// It uses the server's processor all the time.
    BesideServer,
    /// It uses the server's processor for some seconds, again and again.
    NowAndThen,
    /// It uses the Tester's processor all the time.
    BesideTester,
}

/// Who else is on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    pub name: &'static str,
    /// So many recordings of steal at once, each from an instant of its own; 0 for a machine of its own.
    pub steals: u64,
    pub program: Program,
}

impl Others {
    pub const NOBODY: Self = Self { name: "nobody else", steals: 0, program: Program::None };
}

/// Of two programs on a processor each has it for so long in turn, in µs: about a slice of the kernel's
/// scheduler.
const SLICE_US: u64 = 3_000;
/// How long the program that comes now and then works and rests, in s.
const PHASE_S: (f64, f64) = (0.5, 8.0);
/// The kernel counts processor time in ticks of this length, in µs.
const TICK_US: u64 = 10_000;

type Spans = Vec<(u64, u64)>;

/// What the recording has of one processor, in µs.
#[derive(Clone, Debug, Default)]
struct Recorded {
    /// Start and end of each pause.
    pauses: Spans,
    /// Instants, and the ticks of steal that were counted there.
    ticks: Spans,
}

/// The recording: its length in µs, and each processor.
fn recording() -> (u64, [Recorded; 2]) {
    let text = include_str!("steal.txt");
    let mut words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let length_us = words.next().unwrap().parse().unwrap();
    let mut recorded: [Recorded; 2] = Default::default();
    let (mut is_pause, mut of) = (true, 0);
    while let Some(word) = words.next() {
        if let "pauses" | "ticks" = word {
            is_pause = word == "pauses";
            of = words.next().unwrap().parse().unwrap();
            continue;
        }
        let (at, count) = word.split_once(['+', 'x']).unwrap();
        let (at, count): (u64, u64) = (at.parse().unwrap(), count.parse().unwrap());
        match is_pause {
            true => recorded[of].pauses.push((at, at + count)),
            false => recorded[of].ticks.push((at, count)),
        }
    }
    (length_us, recorded)
}

/// The others during one measurement.
pub struct Neighbours {
    others: Others,
    length_us: u64,
    recorded: [Recorded; 2],
    /// When the program that comes now and then begins and ends to work, in µs, for an hour and more.
    working: Spans,
}

impl Neighbours {
    /// With all that is random in it chosen by the seed.
    pub fn new(others: Others, seed: u64) -> Self {
        let (length_us, once) = recording();
        let mut random = Sequence::new(seed, 5);
        let offsets: Vec<u64> = (0..others.steals).map(|_| random.bits() % length_us).collect();
        // Two processors of the same machine: their pauses stay together.
        let recorded = once.map(|recorded| overlaid(&recorded, &offsets, length_us));
        Self { others, length_us, recorded, working: phases(&mut random) }
    }

    /// The pauses of the Tester within a span of the measurement, relative to its begin, in µs; they do not
    /// overlap.
    pub fn tester_pauses(&self, from_us: u64, to_us: u64) -> Spans {
        let mut pauses = self.pauses(1, from_us, to_us);
        if self.others.program == Program::BesideTester {
            pauses.extend(slices(from_us, to_us));
        }
        let relative = |(start, end): (u64, u64)| (start.saturating_sub(from_us), end - from_us);
        merged(pauses).into_iter().map(relative).collect()
    }

    /// Of each millisecond of a span of the measurement, how many thousandths the server lacks its processor.
    pub fn taken_from_server(&self, from_ms: u64, length_ms: u64) -> Vec<u16> {
        let (from_us, to_us) = (from_ms * 1000, (from_ms + length_ms) * 1000);
        let mut taken = self.pauses(0, from_us, to_us);
        taken.extend(slices(from_us, to_us).into_iter().filter(|&(start, _)| self.program_works_at(start)));
        let mut thousandths = vec![0u16; length_ms as usize];
        for (start, end) in merged(taken) {
            let mut at = start.max(from_us);
            while at < end.min(to_us) {
                let next = ((at / 1000 + 1) * 1000).min(end).min(to_us);
                thousandths[((at - from_us) / 1000) as usize] += (next - at) as u16;
                at = next;
            }
        }
        thousandths
    }

    /// The load of tenths of a second of a span of the measurement, as the Tester reads it; the instants are
    /// from the begin of the span. `busy` is the part of its processor that the server uses if it may.
    pub fn load(&self, from_ms: u64, length_ms: u64, busy: f64) -> Vec<LoadSample> {
        let tenth = |at_ms: u64| {
            let until_ms = (at_ms + 100).min(length_ms);
            let (from_us, until_us) = ((from_ms + at_ms) * 1000, (from_ms + until_ms) * 1000);
            let ticks = |us: f64| (us / TICK_US as f64) as u64 * TICK_US;
            let used_us = |until_us: u64| ticks(self.program_us(until_us, busy));
            LoadSample {
                from_ns: at_ms * 1_000_000,
                until_ns: until_ms * 1_000_000,
                steal_ns: self.steal_us(from_us, until_us) * 1000,
                other_programs_ns: Some((used_us(until_us) - used_us(from_us)) * 1000),
            }
        };
        (0..length_ms).step_by(100).map(tenth).collect()
    }

    /// The steal of both processors that the kernel counted in a span, in µs.
    fn steal_us(&self, from_us: u64, until_us: u64) -> u64 {
        let ticks = |recorded: &Recorded| {
            let within = |(at, count, shift): (u64, u64, u64)| {
                (from_us..until_us).contains(&(at + shift)).then_some(count)
            };
            self.rounds(&recorded.ticks, from_us, until_us).filter_map(within).sum::<u64>()
        };
        self.recorded.iter().map(ticks).sum::<u64>() * TICK_US
    }

    /// What the program has used until an instant, in µs: its half of the processor, and what the server
    /// leaves.
    fn program_us(&self, until_us: u64, busy: f64) -> f64 {
        let share = match self.others.program {
            Program::None => 0.0,
            Program::BesideTester => 0.5,
            Program::BesideServer | Program::NowAndThen => (1.0 - busy).max(0.5),
        };
        let worked_us = match self.others.program {
            Program::NowAndThen => {
                self.working.iter().map(|&(start, end)| end.min(until_us).saturating_sub(start)).sum()
            }
            _ => until_us,
        };
        worked_us as f64 * share
    }

    fn program_works_at(&self, us: u64) -> bool {
        match self.others.program {
            Program::None | Program::BesideTester => false,
            Program::BesideServer => true,
            Program::NowAndThen => {
                let next = self.working.partition_point(|&(start, _)| start <= us);
                next > 0 && us < self.working[next - 1].1
            }
        }
    }

    /// The pauses of a processor that overlap a span, in µs of the measurement.
    fn pauses(&self, processor: usize, from_us: u64, to_us: u64) -> Spans {
        let all = self.rounds(&self.recorded[processor].pauses, from_us, to_us);
        let shifted = all.map(|(start, end, shift)| (start + shift, end + shift));
        shifted.filter(|&(start, end)| end > from_us && start < to_us).collect()
    }

    /// What is recorded near a span, and how far each round of the recording is shifted.
    fn rounds<'a>(
        &self,
        recorded: &'a [(u64, u64)],
        from_us: u64,
        to_us: u64,
    ) -> impl Iterator<Item = (u64, u64, u64)> + use<'a> {
        /// Longer than any pause.
        const LONGEST_US: u64 = 1_000_000;
        let length_us = self.length_us;
        (from_us.saturating_sub(LONGEST_US) / length_us..=to_us / length_us).flat_map(move |round| {
            let shift = round * length_us;
            let begin = from_us.saturating_sub(LONGEST_US + shift);
            let first = recorded.partition_point(|&(at, _)| at < begin);
            let near = recorded[first..].iter().take_while(move |&&(at, _)| at + shift < to_us);
            near.map(move |&(at, other)| (at, other, shift))
        })
    }
}

/// The recording from each of these instants on, all at once.
fn overlaid(recorded: &Recorded, offsets_us: &[u64], length_us: u64) -> Recorded {
    let mut all = Recorded::default();
    for offset in offsets_us {
        let shifted = |at: u64| (at + offset) % length_us;
        all.pauses.extend(recorded.pauses.iter().map(|&(start, end)| {
            let start_us = shifted(start);
            (start_us, start_us + end - start)
        }));
        all.ticks.extend(recorded.ticks.iter().map(|&(at, count)| (shifted(at), count)));
    }
    all.ticks.sort_unstable();
    Recorded { pauses: merged(all.pauses), ..all }
}

/// Spans that overlap are one.
fn merged(mut spans: Spans) -> Spans {
    spans.sort_unstable();
    let mut all: Spans = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match all.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => all.push((start, end)),
        }
    }
    all
}

/// Every second slice of a span, in µs of the measurement.
fn slices(from_us: u64, to_us: u64) -> Spans {
    let first = from_us / SLICE_US / 2 * 2;
    let slices = (first..to_us.div_ceil(SLICE_US)).step_by(2);
    let spans = slices.map(|slice| (slice * SLICE_US, (slice + 1) * SLICE_US));
    spans.filter(|&(_, end)| end > from_us).collect()
}

fn phases(random: &mut Sequence) -> Spans {
    let mut phase_us = || ((PHASE_S.0 + random.unit() * (PHASE_S.1 - PHASE_S.0)) * 1e6) as u64;
    let mut at = 0;
    let mut phase = || {
        let start = at + phase_us();
        at = start + phase_us();
        (start, at)
    };
    (0..1000).map(|_| phase()).collect()
}
