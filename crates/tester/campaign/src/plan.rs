//! The plan of a bench: presets, and the expected duration.

use std::time::Duration;

use clap::ValueEnum;
use engine::search::{Mode, Point, SearchSpec, TrialInput, rehearse};
use record::limits::VOIDS_IN_A_ROW;
use record::{Goal, Outcome, Sought};

/// How long the queries of the server under test are observed, in ns.
pub(crate) const OBSERVING_NS: u64 = 5_000_000_000;

/// A named set of lengths and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Short trials, three repetitions: an orientation in about two minutes.
    #[default]
    Quick,
    /// 60 s trials and 20 repetitions, as RFC 8219 asks.
    Rfc8219,
}

impl Preset {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Rfc8219 => "rfc8219",
        }
    }
}

/// Lengths and counts of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The preset's name, or `custom` where options changed it.
    pub preset: &'static str,
    /// Length of a trial in ns; with goals that of the longest one.
    pub trial_ns: u64,
    /// Timeout of an answer in ns.
    pub timeout_ns: u64,
    /// How long to listen after the last query, in ns.
    pub listen_ns: u64,
    /// Pause after a trial in ns.
    pub settle_ns: u64,
    /// Repetitions of the search.
    pub repetitions: u32,
    /// The rule of the search, with its parameters.
    pub mode: Mode,
    /// Width at which the search stops, in percent of the rate.
    pub width_pct: f64,
    /// Lowest and highest rate to try, in q/s.
    pub range_qps: [u64; 2],
    /// The search looks for the number of connections that stand through a trial at the highest of these
    /// rates: lowest and highest number to try. `None`: it looks for the rate.
    pub connections_range: Option<[u64; 2]>,
}

/// One second in ns.
pub const SECOND_NS: u64 = 1_000_000_000;

impl Plan {
    /// The plan of a preset with a timeout, for rates up to `max_qps`.
    pub fn new(preset: Preset, timeout_ns: u64, max_qps: u64) -> Self {
        let range_qps = [100.min(max_qps), max_qps];
        let name = preset.name();
        match preset {
            Preset::Quick => Self {
                preset: name,
                trial_ns: 2 * SECOND_NS,
                timeout_ns,
                listen_ns: timeout_ns + SECOND_NS / 5,
                settle_ns: SECOND_NS / 4,
                repetitions: 3,
                mode: Mode::Verify,
                width_pct: 2.0,
                range_qps,
                connections_range: None,
            },
            Preset::Rfc8219 => Self {
                preset: name,
                trial_ns: 60 * SECOND_NS,
                timeout_ns,
                // RFC 2544 23: wait two seconds for residual replies.
                listen_ns: timeout_ns.max(2 * SECOND_NS),
                // RFC 2544 23: wait at least five seconds for the DUT to restabilize.
                settle_ns: 5 * SECOND_NS,
                repetitions: 20,
                mode: Mode::Rfc8219,
                width_pct: 0.5,
                range_qps,
                connections_range: None,
            },
        }
    }

    /// The search of one repetition.
    pub fn search(&self) -> SearchSpec {
        let [low, high] = self.connections_range.unwrap_or(self.range_qps);
        SearchSpec {
            mode: self.mode.clone(),
            low,
            high,
            trial_ns: self.trial_ns,
            width_pct: self.width_pct,
            voids_max: VOIDS_IN_A_ROW.value as u32,
        }
    }

    /// What the search looks for.
    pub fn sought(&self) -> Sought {
        if self.connections_range.is_some() { Sought::Connections } else { Sought::Rate }
    }

    /// The length of a trial in ns: every connection that is to stand has a query.
    pub(crate) fn length_ns(&self, TrialInput { load, duration_ns }: TrialInput) -> u64 {
        let round_ns = u128::from(load) * u128::from(SECOND_NS) / u128::from(self.range_qps[1].max(1));
        let round_ns = u64::try_from(round_ns).unwrap_or(u64::MAX);
        if self.connections_range.is_some() { duration_ns.max(round_ns) } else { duration_ns }
    }

    /// Its goals, for the record; none but with [`Mode::Mlr`].
    pub fn goals(&self) -> Vec<Goal> {
        match &self.mode {
            Mode::Mlr(goals) => goals.iter().map(Goal::from).collect(),
            _ => Vec::new(),
        }
    }

    /// About how long a trial of this length takes; one with losses waits for late answers.
    pub(crate) fn trial_time(&self, trial_ns: u64, lossy: bool) -> Duration {
        let listening = if lossy { self.listen_ns } else { 0 };
        Duration::from_nanos(trial_ns + listening + self.settle_ns) + Duration::from_millis(60)
    }

    /// About how long a trial of a search took or takes.
    pub(crate) fn time_of(&self, &Point { load, duration_ns, outcome, .. }: &Point) -> Duration {
        let length_ns = self.length_ns(TrialInput { load, duration_ns });
        self.trial_time(length_ns, outcome == Outcome::Fail)
    }

    /// About how long the trials after the searches take: that at half the rate, and the last one where the
    /// AuthDNS looks at the server's queries.
    pub fn afterwards(&self, observing: bool) -> Duration {
        let observing_ns = if observing { OBSERVING_NS + self.listen_ns } else { 0 };
        let half = match self.sought() {
            Sought::Rate => self.trial_time(self.trial_ns, false),
            Sought::Connections => Duration::ZERO,
        };
        half + Duration::from_nanos(observing_ns)
    }

    /// About how long `repetitions` searches take that find about `expected`, by default half of the highest
    /// load.
    pub fn forecast(&self, repetitions: u32, expected: Option<u64>) -> Duration {
        let spec = self.search();
        let trials = rehearse(&spec, expected.unwrap_or(spec.high / 2));
        let time = |point: &Point| self.time_of(point);
        trials.iter().map(time).sum::<Duration>() * repetitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the searches the self-test has one trial where it passes, which the rest of the time is for.
    #[test]
    fn the_quick_preset_ends_within_three_minutes() {
        let plan = Plan::new(Preset::Quick, SECOND_NS, 100_000);
        for expected_qps in [500, 5_000, 30_000, 60_000, 100_000] {
            let time = plan.forecast(plan.repetitions, Some(expected_qps)) + plan.afterwards(true);
            assert!(time < Duration::from_secs(175), "{expected_qps} q/s takes {time:?}");
        }
    }

    #[test]
    fn the_trials_after_the_searches_count() {
        let plan = Plan::new(Preset::Quick, SECOND_NS, 100_000);
        let looking = plan.afterwards(true) - plan.afterwards(false);
        assert_eq!(looking, Duration::from_nanos(OBSERVING_NS + plan.listen_ns));
        assert_eq!(plan.afterwards(false), plan.trial_time(plan.trial_ns, false));
    }

    #[test]
    fn every_standing_connection_has_a_query() {
        let plan = Plan { connections_range: Some([1, 20_000]), ..Plan::new(Preset::Quick, SECOND_NS, 1000) };
        let length_ns = |load| plan.length_ns(TrialInput { load, duration_ns: plan.trial_ns });
        assert_eq!([length_ns(500), length_ns(20_000)], [plan.trial_ns, 20 * SECOND_NS]);
        assert_eq!(
            (plan.search().low, plan.search().high, plan.afterwards(false)),
            (1, 20_000, Duration::ZERO)
        );
    }

    #[test]
    fn the_rfc8219_preset_keeps_its_lengths() {
        let plan = Plan::new(Preset::Rfc8219, SECOND_NS, 100_000);
        assert_eq!((plan.trial_ns, plan.repetitions, &plan.mode), (60 * SECOND_NS, 20, &Mode::Rfc8219));
        assert!(plan.forecast(20, Some(50_000)) > Duration::from_secs(3 * 3600));
    }
}
