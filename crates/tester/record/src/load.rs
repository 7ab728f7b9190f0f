//! The load model of a trial, as a record says it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the queries of a trial lie in time. It stands in a record as it is written on the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LoadModel {
    /// Not said, by a program that knew the constant rate only.
    #[default]
    Unstated,
    /// `constant`: all at the same distance.
    Constant,
    /// `poisson:SEED`: a Poisson process.
    Poisson {
        /// The same seed gives the same instants.
        seed: u64,
    },
    /// `steps:RATE,RATE,...`: constant rates one after another, in q/s.
    Steps(Vec<u64>),
    /// `ramp:FROM-TO`: a rate that changes evenly.
    Ramp {
        /// At the start, in q/s.
        from_qps: u64,
        /// At the end, in q/s.
        to_qps: u64,
    },
    /// `sine:LOW-HIGH/SECONDS`: a rate that rises and falls as a sine.
    Sine {
        /// At the start of each period, in q/s.
        low_qps: u64,
        /// In the middle of each period, in q/s.
        high_qps: u64,
        /// The period in seconds.
        period_s: u64,
    },
    /// `rates:FILE`: recorded rates.
    Rates {
        /// The file, as it was named.
        source: String,
    },
    /// `burst:QUERIES`: so many back to back.
    Burst {
        /// Queries of a burst.
        queries: u32,
    },
    /// `replay`, or `replay x SPEED` in the settings of a record: the instants of recorded queries.
    Replay {
        /// So many times as fast as they were recorded.
        speed: Option<f64>,
    },
    /// `closed:WINDOW`: each thread keeps so many queries outstanding.
    Window {
        /// Outstanding queries of a thread.
        queries: u32,
    },
    /// `experiments:SLOTS` or `experiments:SLOTSxCOUNT`: experiments of 256 queries, as dns64perf2 makes
    /// them.
    Experiments {
        /// Queries that are outstanding at a time.
        slots: u32,
        /// How many experiments; `None`: as many as the duration allows.
        count: Option<u32>,
    },
    /// A load model that this version does not know, as it stands in the record.
    Other(String),
}

impl LoadModel {
    /// Whether queries lie at the same distance; a record that says nothing is of a program that knew nothing
    /// else.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Unstated | Self::Constant)
    }
}

impl fmt::Display for LoadModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstated => Ok(()),
            Self::Constant => f.write_str("constant"),
            Self::Poisson { seed } => write!(f, "poisson:{seed}"),
            Self::Steps(rates_qps) => {
                let rates: Vec<String> = rates_qps.iter().map(u64::to_string).collect();
                write!(f, "steps:{}", rates.join(","))
            }
            Self::Ramp { from_qps, to_qps } => write!(f, "ramp:{from_qps}-{to_qps}"),
            Self::Sine { low_qps, high_qps, period_s } => write!(f, "sine:{low_qps}-{high_qps}/{period_s}"),
            Self::Rates { source } => write!(f, "rates:{source}"),
            Self::Burst { queries } => write!(f, "burst:{queries}"),
            Self::Replay { speed: None } => f.write_str("replay"),
            Self::Replay { speed: Some(speed) } => write!(f, "replay x {speed}"),
            Self::Window { queries } => write!(f, "closed:{queries}"),
            Self::Experiments { slots, count: None } => write!(f, "experiments:{slots}"),
            Self::Experiments { slots, count: Some(count) } => write!(f, "experiments:{slots}x{count}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<&str> for LoadModel {
    /// A text that would not be written again as it is, is [`LoadModel::Other`].
    fn from(text: &str) -> Self {
        let known = known(text).filter(|model| model.to_string() == text);
        known.unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

fn known(text: &str) -> Option<LoadModel> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let speed = text.strip_prefix("replay x ").and_then(|speed| speed.parse().ok());
    Some(match name {
        "" => LoadModel::Unstated,
        "constant" => LoadModel::Constant,
        "poisson" => LoadModel::Poisson { seed: number(value)? },
        "steps" => LoadModel::Steps(value.split(',').map(number).collect::<Option<_>>()?),
        "ramp" => {
            let (from, to) = value.split_once('-')?;
            LoadModel::Ramp { from_qps: number(from)?, to_qps: number(to)? }
        }
        "sine" => {
            let (range, period) = value.split_once('/')?;
            let (low, high) = range.split_once('-')?;
            LoadModel::Sine { low_qps: number(low)?, high_qps: number(high)?, period_s: number(period)? }
        }
        "rates" => LoadModel::Rates { source: value.to_owned() },
        "burst" => LoadModel::Burst { queries: number(value)? },
        "closed" => LoadModel::Window { queries: number(value)? },
        "experiments" => {
            let (slots, count) = value.split_once('x').map_or((value, ""), |halves| halves);
            LoadModel::Experiments { slots: number(slots)?, count: number(count) }
        }
        "replay" => LoadModel::Replay { speed: None },
        _ => LoadModel::Replay { speed: Some(speed?) },
    })
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

impl Serialize for LoadModel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LoadModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_today_is_known() {
        for text in [
            "",
            "constant",
            "poisson:7",
            "steps:10000,20000",
            "ramp:1000-100000",
            "sine:1000-5000/60",
            "rates:morning.csv",
            "burst:64",
            "closed:8",
            "experiments:4",
            "experiments:16x2560",
            "replay",
            "replay x 1.5",
        ] {
            let model = LoadModel::from(text);
            assert!(!matches!(model, LoadModel::Other(_)), "{text}");
            assert_eq!(model.to_string(), text);
        }
        assert_eq!(LoadModel::from("burst:064"), LoadModel::Other("burst:064".into()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_written_as_it_is(text in ".{0,30}|(poisson|steps|ramp|sine|rates|burst|replay x )[-:0-9,x.e/]{0,12}") {
            prop_assert_eq!(LoadModel::from(text.as_str()).to_string(), text);
        }
    }
}
