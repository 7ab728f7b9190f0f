//! The record of a visit: of a search, of one trial, or of a ladder.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use record::ladder;
use record::{Outcome, Results, State, Trial};

/// The file of a trial in its directory.
const TRIAL: &str = "trial.json";
const LADDER: &str = "ladder.json";

/// The record of a visit.
#[derive(Clone, Debug)]
pub enum VisitRecord {
    /// Of `bench` and `search`.
    Search(Box<Results>),
    /// Of `trial`.
    Trial(Box<Trial>),
    /// Of `preflight`.
    Ladder(Box<ladder::Record>),
}

impl VisitRecord {
    /// Reads what the visit with this command line left in its directory.
    ///
    /// # Errors
    /// There is nothing, or it cannot be read: why.
    pub fn load(arguments: &[String], directory: &Path) -> Result<Self, String> {
        match arguments.first().map(String::as_str) {
            Some("trial") => read(&directory.join(TRIAL), "a trial").map(Self::Trial),
            Some("preflight") => read(&directory.join(LADDER), "a ladder").map(Self::Ladder),
            _ => {
                let results = crate::load(directory).map_err(|error| error.to_string())?;
                Ok(Self::Search(Box::new(results)))
            }
        }
    }

    /// Whether it came to its end with a result; a trial that the server failed has one, one that the Tester
    /// spoilt has none.
    ///
    /// # Errors
    /// Why not, where the record knows.
    pub fn check(&self) -> Result<(), Option<String>> {
        match self {
            Self::Search(results) if results.state == State::Complete => Ok(()),
            Self::Search(_) => Err(None),
            Self::Trial(trial) if trial.outcome == Outcome::Void => Err(Some(format!(
                "the trial is void: {}",
                trial.void.as_deref().unwrap_or("its reason is not known")
            ))),
            Self::Ladder(record) if record.climb.is_none() => Err(None),
            Self::Trial(_) | Self::Ladder(_) => Ok(()),
        }
    }

    /// It as it stands in its file.
    pub fn value(&self) -> serde_json::Value {
        let value = match self {
            Self::Search(results) => serde_json::to_value(results),
            Self::Trial(trial) => serde_json::to_value(trial),
            Self::Ladder(record) => serde_json::to_value(record),
        };
        value.unwrap_or_default()
    }
}

fn read<T: DeserializeOwned>(path: &Path, what: &str) -> Result<Box<T>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let octets = fs::read(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    serde_json::from_slice(&octets).map_err(|error| failed(format!("not the record of {what}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_counts_unless_it_is_void() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["trial".to_owned()];
        let load = || VisitRecord::load(&arguments, directory.path());
        assert!(load().unwrap_err().contains("trial.json: cannot be read"));
        let write = |text: &str| fs::write(directory.path().join(TRIAL), text).unwrap();
        write("{");
        assert!(load().unwrap_err().contains("not the record of a trial"));
        for (outcome, void, expected) in [
            (Outcome::Pass, None, Ok(())),
            (Outcome::Fail, None, Ok(())),
            (Outcome::Void, Some("late".to_owned()), Err(Some("the trial is void: late".to_owned()))),
        ] {
            let trial = Trial { outcome, void, sent: 7, ..Trial::default() };
            write(&serde_json::to_string(&trial).unwrap());
            let visited = load().unwrap();
            assert_eq!(visited.check(), expected);
            assert_eq!(visited.value()["sent"], 7);
        }
    }
}
