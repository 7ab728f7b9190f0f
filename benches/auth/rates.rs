//! How many queries each server answers with one worker.

use std::io;
use std::time::Duration;

use crate::load::{Generator, Load, Question, Told};
use crate::place::{Content, Placement, Running, Subject};
use crate::table::{Sample, table};

/// Names of the zone where they can be asked over and over: 65,536.
const NAMES_BITS: u8 = 16;
/// Names where each is asked once: enough for a trial of a server that loads them, and of one that does not.
const ONCE_BITS: u8 = 21;
const ONCE_BITS_OURS: u8 = 24;
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
    /// The server.
    pub subject: Subject,
    generator: Generator,
    question: Question,
    /// The most that were answered, whatever was asked, in q/s.
    pub peak_qps: Sample,
    loss_free_qps: Sample,
    process_us: Sample,
    core_us: Sample,
    both_us: Sample,
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
        eprintln!("{}", row.cells().join(", "));
    }
    Ok(())
}

/// The table of some rows.
pub fn rendered(rows: &[Row]) -> String {
    let head = [
        "server",
        "asked by",
        "names",
        "most answered, 1000 q/s",
        "99.9 % answered, 1000 q/s",
        "its processes, µs per answer",
        "its processor, µs per answer",
        "both processors, µs per answer",
    ];
    table(&head, &rows.iter().map(Row::cells).collect::<Vec<_>>())
}

impl Row {
    fn new(subject: Subject, generator: Generator, question: Question) -> Self {
        let sample = Sample::default;
        Self {
            subject,
            generator,
            question,
            peak_qps: sample(),
            loss_free_qps: sample(),
            process_us: sample(),
            core_us: sample(),
            both_us: sample(),
        }
    }

    fn content(&self) -> Content {
        let names_bits = match (self.generator.repeats(), self.subject.is_ours()) {
            (true, _) => NAMES_BITS,
            (false, false) => ONCE_BITS,
            (false, true) => ONCE_BITS_OURS,
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
        self.peak_qps.push(peak.answered_qps);
        self.process_us.push(peak.process_us);
        self.core_us.push(peak.core_us);
        self.both_us.push(peak.both_us);
        if self.question == Question::Aaaa && self.loss_free_qps.is_empty() {
            self.loss_free_qps.push(self.loss_free(place, server, peak.answered_qps)?);
        }
        Ok(())
    }

    /// Asks more and more, until twice what was asked brings no more answers; the trial with most of them.
    fn peak(&self, place: &Placement, server: &Running<'_>) -> io::Result<Told> {
        const GROWTH: f64 = 1.35;
        const GAIN: f64 = 1.03;
        let mut rate_qps =
            if self.peak_qps.median() > 0.0 { self.peak_qps.median() * 0.9 } else { START_QPS };
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

    fn cells(&self) -> Vec<String> {
        vec![
            self.subject.name(),
            self.generator.name().into(),
            format!("2^{}", self.content().names_bits),
            self.peak_qps.thousands(),
            self.loss_free_qps.thousands(),
            self.process_us.decimals(2),
            self.core_us.decimals(2),
            self.both_us.decimals(2),
        ]
    }
}

/// How many times as fast a server is as another: the best medians of both, over their generators; of two
/// servers on sockets the worst ratio, over the generators that asked both, for what favours joined packets
/// is the client's gift. `None` where one was not measured.
pub fn ratio(rows: &[Row], ours: Subject, theirs: Subject) -> Option<Ratio> {
    let by = |subject: Subject| {
        rows.iter().filter(move |row| row.subject == subject && row.peak_qps.median() > 0.0)
    };
    let best = |subject| by(subject).max_by(|a, b| a.peak_qps.median().total_cmp(&b.peak_qps.median()));
    let pairs: Vec<(&Row, &Row)> = if ours.is_xdp() || theirs.is_xdp() {
        best(ours).zip(best(theirs)).into_iter().collect()
    } else {
        by(ours)
            .flat_map(|a| by(theirs).filter(|b| b.generator == a.generator).map(move |b| (a, b)))
            .collect()
    };
    let ratios = pairs.into_iter().map(|(a, b)| Ratio {
        ours_qps: a.peak_qps.median(),
        theirs_qps: b.peak_qps.median(),
        generator: a.generator.name(),
    });
    ratios.min_by(|a, b| a.times().total_cmp(&b.times()))
}

/// Two rates of answers.
pub struct Ratio {
    /// Ours in q/s.
    pub ours_qps: f64,
    /// The other's in q/s.
    pub theirs_qps: f64,
    /// Who asked ours.
    pub generator: &'static str,
}

impl Ratio {
    /// Ours as a multiple of the other's.
    pub fn times(&self) -> f64 {
        self.ours_qps / self.theirs_qps
    }
}
