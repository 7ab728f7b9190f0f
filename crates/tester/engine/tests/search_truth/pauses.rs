//! Pauses of the Tester: recorded on virtual machines, and replayed from a random instant on.

use record::random::Sequence;

/// Pauses as they were recorded (pauses.txt says how), in µs.
struct Recording {
    length_us: u64,
    /// Start and end of each, in their order.
    pauses: Vec<(u64, u64)>,
}

impl Recording {
    fn read() -> Self {
        let text = include_str!("pauses.txt");
        let mut words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let length_us = words.next().unwrap().parse().unwrap();
        let pause = |word: &str| {
            let (start, length) = word.split_once('+').unwrap();
            let (start, length): (u64, u64) = (start.parse().unwrap(), length.parse().unwrap());
            (start, start + length)
        };
        Self { length_us, pauses: words.map(pause).collect() }
    }
}

/// The recording from some instant on, again and again.
pub struct Tape {
    recording: Recording,
    /// The instant of the recording at which the measurement began, in µs.
    offset_us: u64,
}

impl Tape {
    /// From an instant that the seed says.
    pub fn of(seed: u64) -> Self {
        let recording = Recording::read();
        let offset_us = Sequence::new(seed, 1).bits() % recording.length_us;
        Self { recording, offset_us }
    }

    /// A Tester that never pauses.
    pub fn without() -> Self {
        Self { recording: Recording { length_us: 1, pauses: Vec::new() }, offset_us: 0 }
    }

    /// Start and end of the pauses within a span of the measurement, relative to its begin, in µs.
    pub fn within(&self, from_us: u64, to_us: u64) -> Vec<(u64, u64)> {
        let Recording { length_us, pauses } = &self.recording;
        let (first, last) = (self.offset_us + from_us, self.offset_us + to_us);
        let rounds = if pauses.is_empty() { 0..0 } else { first / length_us..last / length_us + 1 };
        let all = rounds.flat_map(|round| {
            pauses.iter().map(move |&(start, end)| (start + round * length_us, end + round * length_us))
        });
        all.filter(|&(start, end)| end > first && start < last)
            .map(|(start, end)| (start.saturating_sub(first), end - first))
            .collect()
    }
}
