//! The load models and how they are written: `poisson`, `steps:10000,20000`, `ramp:1000-100000`,
//! `sine:1000-5000/60`, `burst:64`, `closed:8`.

use std::fmt;
use std::str::FromStr;

use record::LoadModel;

use super::rates::Rates;
use super::recorded::Recorded;
use super::replay::Times;
use super::sine::{PERIOD_MAX_S, Sine};
use super::steps::{STEPS_MAX, Steps};

/// How the queries of a trial lie in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// All at the same distance.
    #[default]
    Constant,
    /// A Poisson process with exactly the queries that the rate asks for: their instants are independent and
    /// uniform, in their order.
    Poisson {
        /// The same seed gives the same instants.
        seed: u64,
    },
    /// Constant rates one after another, in equal parts of the duration.
    Steps(Steps),
    /// A rate that changes evenly.
    Ramp {
        /// At the start, in q/s, at least 1.
        from_qps: u64,
        /// At the end, in q/s, at least 1.
        to_qps: u64,
    },
    /// A rate that rises and falls as a sine.
    Sine(Sine),
    /// Recorded rates, each held for its time.
    Rates(Rates),
    /// So many back to back, at the average rate (RFC 2544 21 uses 16, 64, 256 and 1024).
    Burst {
        /// Queries of a burst, 1 to [`BURST_MAX`].
        queries: u32,
    },
    /// The instants of recorded queries.
    Replay(Times),
    /// The instants and the clients of recorded queries, which come with the queries.
    Recorded(Recorded),
    /// Closed loop: each thread keeps so many queries outstanding, as dnsperf does.
    Window {
        /// 1 to [`SLOTS_MAX`].
        queries: u32,
    },
    /// Closed loop: experiments of 256 queries one after another, as dns64perf2 does. Each of so many slots
    /// sends its equal share, the next query after the answer to the last; an experiment ends when all have
    /// (Lencse, *Performance Analysis of MTD64*, III-B).
    Experiments {
        /// A power of two, 1 to 256.
        slots: u32,
        /// How many experiments; `None`: as many as the duration allows.
        count: Option<u32>,
    },
}

/// Queries of an experiment of dns64perf2.
pub const EXPERIMENT_QUERIES: u64 = 256;
/// The largest burst.
pub const BURST_MAX: u32 = 65_536;
/// The largest window of a closed loop.
pub const SLOTS_MAX: u32 = 32_768;

impl Model {
    /// Whether answers set the pace instead of a schedule.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Window { .. } | Self::Experiments { .. })
    }

    /// The most queries of a lane that wait for their answers in a closed loop; 0 of the other models.
    pub fn outstanding_max(&self) -> u64 {
        match *self {
            Self::Window { queries } => queries.into(),
            Self::Experiments { slots, .. } => slots.into(),
            _ => 0,
        }
    }

    /// Whether it needs a rate besides.
    pub fn needs_rate(&self) -> bool {
        matches!(self, Self::Constant | Self::Poisson { .. } | Self::Burst { .. })
    }
}

/// Why a text is no load model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

/// A number from 1 to `highest`.
fn number(text: &str, what: &str, highest: u64) -> Result<u64, ModelError> {
    let number = text.replace('_', "").parse().ok().filter(|number| (1..=highest).contains(number));
    number.ok_or_else(|| ModelError(format!("'{text}' is not {what} from 1 to {highest}")))
}

const RATE_MAX_QPS: u64 = 100_000_000;

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        Ok(match (name, value) {
            ("constant", "") => Self::Constant,
            ("poisson", "") => Self::Poisson { seed: 0 },
            ("poisson", seed) => Self::Poisson {
                seed: seed.parse().map_err(|_| ModelError(format!("the seed '{seed}' is not a number")))?,
            },
            ("steps", rates) => {
                let rates: Vec<u64> = rates.split(',').map(rate).collect::<Result<_, _>>()?;
                Self::Steps(Steps::new(&rates).ok_or_else(|| {
                    ModelError(format!("{} steps are too many: {STEPS_MAX} are allowed", rates.len()))
                })?)
            }
            ("ramp", range) => {
                let ends = range.split_once('-');
                let (from, to) = ends
                    .ok_or_else(|| ModelError("write ramp:FROM-TO, for example ramp:1000-100000".into()))?;
                Self::Ramp { from_qps: rate(from)?, to_qps: rate(to)? }
            }
            ("sine", wave) => sine(wave)?,
            ("burst", queries) => {
                Self::Burst { queries: number(queries, "a number of queries", BURST_MAX.into())? as u32 }
            }
            ("closed", queries) => Self::Window {
                queries: number(queries, "a number of outstanding queries", SLOTS_MAX.into())? as u32,
            },
            ("experiments", slots) => experiments(slots)?,
            _ => {
                return Err(ModelError(format!(
                    "'{text}' is no load model: use constant, poisson[:SEED], steps:RATE,RATE,..., ramp:FROM-TO, \
                     sine:LOW-HIGH/SECONDS, rates:FILE, burst:QUERIES, closed:WINDOW or experiments:SLOTS[xCOUNT]"
                )));
            }
        })
    }
}

fn rate(text: &str) -> Result<u64, ModelError> {
    number(text, "a rate in q/s", RATE_MAX_QPS)
}

fn sine(text: &str) -> Result<Model, ModelError> {
    let parts = text.split_once('/').and_then(|(range, period)| Some((range.split_once('-')?, period)));
    let ((low, high), period) = parts.ok_or_else(|| {
        ModelError(
            "write sine:LOW-HIGH/SECONDS, for example sine:1000-5000/60 for a period of a minute".into(),
        )
    })?;
    let (low, high, period_s) =
        (rate(low)?, rate(high)?, number(period, "a period in seconds", PERIOD_MAX_S)?);
    let sine = Sine::new(low, high, period_s);
    sine.map(Model::Sine).ok_or_else(|| ModelError(format!("'{text}': the lowest rate is above the highest")))
}

fn experiments(text: &str) -> Result<Model, ModelError> {
    let (slots, count) = match text.split_once('x') {
        Some((slots, count)) => (slots, Some(number(count, "a number of experiments", 1 << 24)? as u32)),
        None => (text, None),
    };
    let slots = number(slots, "a number of slots", EXPERIMENT_QUERIES)? as u32;
    if !slots.is_power_of_two() {
        return Err(ModelError(format!(
            "{slots} slots cannot share the 256 queries of an experiment: use a power of two"
        )));
    }
    Ok(Model::Experiments { slots, count })
}

impl From<Model> for LoadModel {
    fn from(model: Model) -> Self {
        match model {
            Model::Constant => Self::Constant,
            Model::Poisson { seed } => Self::Poisson { seed },
            Model::Steps(steps) => Self::Steps(steps.rates_qps().to_vec()),
            Model::Ramp { from_qps, to_qps } => Self::Ramp { from_qps, to_qps },
            Model::Sine(sine) => {
                Self::Sine { low_qps: sine.low_qps(), high_qps: sine.high_qps(), period_s: sine.period_s() }
            }
            Model::Rates(rates) => Self::Rates { source: rates.source().to_owned() },
            Model::Burst { queries } => Self::Burst { queries },
            Model::Replay(_) | Model::Recorded(_) => Self::Replay { speed: None },
            Model::Window { queries } => Self::Window { queries },
            Model::Experiments { slots, count } => Self::Experiments { slots, count },
        }
    }
}

impl fmt::Display for Model {
    /// As it is written on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LoadModel::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn models_are_read_as_they_are_written() {
        for text in [
            "constant",
            "poisson:7",
            "steps:10000,20000,50000",
            "ramp:1000-100000",
            "sine:1000-5000/60",
            "burst:64",
            "closed:8",
            "experiments:4",
            "experiments:16x2560",
        ] {
            assert_eq!(text.parse::<Model>().unwrap().to_string(), text);
        }
        assert_eq!("steps:10_000".parse::<Model>(), "steps:10000".parse::<Model>());
        assert!("closed:1".parse::<Model>().unwrap().is_closed());
        assert!(!"burst:16".parse::<Model>().unwrap().is_closed());
    }

    #[test]
    fn wrong_texts_say_what_is_wrong() {
        for (text, reason) in [
            ("", "is no load model"),
            ("bursts:3", "is no load model"),
            ("constant:3", "is no load model"),
            ("burst:0", "'0' is not a number of queries from 1 to 65536"),
            ("steps:", "'' is not a rate"),
            ("steps:1,x", "'x' is not a rate"),
            ("ramp:5", "write ramp:FROM-TO"),
            ("ramp:0-5", "'0' is not a rate"),
            ("sine:1-5", "write sine:LOW-HIGH/SECONDS"),
            ("sine:5-1/60", "the lowest rate is above the highest"),
            ("sine:1-5/0", "'0' is not a period in seconds from 1 to 86400"),
            ("experiments:3", "power of two"),
            ("experiments:512", "'512' is not a number of slots from 1 to 256"),
            ("poisson:x", "seed 'x'"),
        ] {
            let error = text.parse::<Model>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let many = format!("steps:{}", vec!["1"; STEPS_MAX + 1].join(","));
        assert!(many.parse::<Model>().unwrap_err().to_string().contains("too many"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(steps|ramp|sine|burst|closed|experiments|poisson)?:?[-0-9,x/]{0,30}") {
            if let Ok(model) = text.parse::<Model>() {
                prop_assert_eq!(model.to_string().parse::<Model>(), Ok(model));
            }
        }
    }
}
