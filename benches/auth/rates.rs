//! How many queries each server answers with one worker.

use std::io;
use std::time::Duration;

use crate::load::{Generator, Load, Question, Told};
use crate::place::{Content, Placement, Running, Subject};
use figures::auth::Rates;

/// Names of the zone where they can be asked over and over: 65,536.
const NAMES_BITS: u8 = 16;
/// Names where each is asked once: the same for servers that are compared. A server in the kernel answers
/// more in a trial than any of the others could load.
const ONCE_BITS: u8 = 21;
const ONCE_BITS_KERNEL: u8 = 24;
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of a trial under overload, and of one that shall be loss-free, in seconds.
const OVERLOAD_S: f64 = 1.0;
const LOSS_FREE_S: f64 = 2.0;
/// The first rate of all, in q/s.
const START_QPS: f64 = 150_000.0;
/// A rate is loss-free with this share of the queries answered.
const LOSS_FREE_SHARE: f64 = 0.999;
/// The search for it ends when its bracket is narrower than this ratio.
const WIDTH: f64 = 1.15;
/// The most trials in which more and more is asked.
const PEAK_TRIALS_MAX: usize = 16;
/// Trials at a rate before it is given up: the machine is not ours alone.
const ATTEMPTS: usize = 2;

/// A server, asked by a generator, over all rounds.
pub struct Row {
    subject: Subject,
    generator: Generator,
    question: Question,
    /// What was measured.
    pub measured: Rates,
}

/// The servers with the generators that each is asked by.
pub fn rows(question: Question) -> Vec<Row> {
    let mut rows = Vec::new();
    for subject in Subject::ALL {
        let generators: &[Generator] = match (subject, question) {
            (Subject::Ours("kernel"), _) => &[Generator::Kernel],
            (subject, Question::Aaaa) if subject.is_xdp() => &[Generator::Gso, Generator::Kernel],
            (Subject::Ours(_) | Subject::Peer("nsd" | "knot"), Question::Aaaa) => {
                &[Generator::Gso, Generator::ManyPorts]
            }
            _ => &[Generator::Gso],
        };
        rows.extend(generators.iter().map(|&generator| Row::new(subject, generator, question)));
    }
    rows
}

/// Measures all rows once; those of servers that are not installed stay empty.
///
/// # Errors
/// A server or the generator cannot be started.
pub fn round(place: &Placement, rows: &mut [Row]) -> io::Result<()> {
    for row in rows.iter_mut().filter(|row| place.missing(row.subject).is_none()) {
        let server = place.start(row.subject, row.content(), PATIENCE)?;
        row.measure(place, &server)?;
        eprintln!("{}", row.in_words());
    }
    Ok(())
}

impl Row {
    fn new(subject: Subject, generator: Generator, question: Question) -> Self {
        let mut row = Self { subject, generator, question, measured: Rates::default() };
        row.measured.server = subject.name();
        row.measured.generator = generator.name().into();
        row.measured.names_bits = row.content().names_bits;
        row
    }

    fn content(&self) -> Content {
        let names_bits = match (self.generator.repeats(), self.subject) {
            (true, _) => NAMES_BITS,
            (false, Subject::Ours("kernel")) => ONCE_BITS_KERNEL,
            (false, _) => ONCE_BITS,
        };
        Content { names_bits, aaaa_share: self.question.aaaa_share() }
    }

    fn trial(&self, place: &Placement, server: &Running<'_>, rate_qps: f64, s: f64) -> io::Result<Told> {
        let (generator, question, content) = (self.generator, self.question, self.content());
        let rate_qps = rate_qps.min(self.most_qps(s));
        Load { generator, question, content, rate_qps, duration_s: s }.run(place, server)
    }

    /// The highest rate for which there are names for so many seconds.
    fn most_qps(&self, s: f64) -> f64 {
        if self.generator.repeats() { f64::INFINITY } else { (1u64 << self.content().names_bits) as f64 / s }
    }

    fn measure(&mut self, place: &Placement, server: &Running<'_>) -> io::Result<()> {
        let peak = self.peak(place, server)?;
        self.measured.peak_qps.push(peak.answered_qps);
        self.measured.process_us.push(peak.process_us);
        self.measured.core_us.push(peak.core_us);
        self.measured.both_us.push(peak.both_us);
        if self.question == Question::Aaaa && self.measured.loss_free_qps.is_empty() {
            self.measured.loss_free_qps.push(self.loss_free(place, server, peak.answered_qps)?);
        }
        Ok(())
    }

    /// Asks more and more, until twice what was asked brings no more answers; the trial with most of them.
    fn peak(&self, place: &Placement, server: &Running<'_>) -> io::Result<Told> {
        const GROWTH: f64 = 1.35;
        const GAIN: f64 = 1.03;
        let mut rate_qps = if self.measured.peak_qps.median() > 0.0 {
            self.measured.peak_qps.median() * 0.9
        } else {
            START_QPS
        };
        let (mut best, mut without_gain) = (Told::default(), 0);
        for _ in 0..PEAK_TRIALS_MAX {
            if without_gain >= 2 {
                break;
            }
            let told = self.trial(place, server, rate_qps, OVERLOAD_S)?;
            without_gain = if told.answered_qps > best.answered_qps * GAIN { 0 } else { without_gain + 1 };
            if told.answered_qps > best.answered_qps {
                best = told;
            }
            if !told.kept_rate() {
                // The generator is at its end too.
                without_gain += 1;
            }
            rate_qps *= GROWTH;
        }
        Ok(best)
    }

    /// The highest rate, in q/s, at which nearly every query was answered within a second.
    fn loss_free(&self, place: &Placement, server: &Running<'_>, peak_qps: f64) -> io::Result<f64> {
        let good = |told: &Told| told.answered_share() >= LOSS_FREE_SHARE && told.kept_rate();
        let most_qps = self.most_qps(LOSS_FREE_S);
        let (mut low, mut high) = (0.0, most_qps.min(peak_qps * 1.05));
        let mut rate_qps = most_qps.min(peak_qps * 0.9);
        while high / f64::max(low, 1.0) > WIDTH && rate_qps > peak_qps / 10.0 {
            let mut passed = false;
            for _ in 0..ATTEMPTS {
                passed = good(&self.trial(place, server, rate_qps, LOSS_FREE_S)?);
                if passed {
                    break;
                }
            }
            if passed {
                low = rate_qps;
            } else {
                high = rate_qps;
            }
            rate_qps = if low > 0.0 { (low * high).sqrt() } else { high * 0.8 };
        }
        Ok(low)
    }

    fn in_words(&self) -> String {
        let Rates { server, generator, peak_qps, loss_free_qps, both_us, .. } = &self.measured;
        let (peak, loss_free, us) = (peak_qps.thousands(), loss_free_qps.thousands(), both_us.decimals(2));
        format!("{server}, {generator}: {peak} thousand q/s, 99.9 % of {loss_free}, {us} us")
    }
}
