//! What a visit left: the record of a search, or of one trial.

use std::fs;
use std::path::Path;

use engine::record::{Outcome, Results, State, Trial};

use crate::report;

/// The file of a trial in its directory.
const TRIAL: &str = "trial.json";

/// The record of a visit.
#[derive(Clone, Debug)]
pub enum Visited {
    /// Of `bench` and `search`.
    Search(Box<Results>),
    /// Of `trial`.
    Trial(Box<Trial>),
}

impl Visited {
    /// Reads what the visit with this command line left in its directory.
    ///
    /// # Errors
    /// There is nothing, or it cannot be read: why.
    pub fn load(arguments: &[String], directory: &Path) -> Result<Self, String> {
        if arguments.first().is_none_or(|command| command != "trial") {
            let results = report::load(directory).map_err(|error| error.to_string())?;
            return Ok(Self::Search(Box::new(results)));
        }
        let path = directory.join(TRIAL);
        let failed = |why: String| format!("{}: {why}", path.display());
        let octets = fs::read(&path).map_err(|error| failed(format!("cannot be read: {error}")))?;
        let trial = serde_json::from_slice(&octets)
            .map_err(|error| failed(format!("not the record of a trial: {error}")))?;
        Ok(Self::Trial(Box::new(trial)))
    }

    /// Whether it came to its end with a result; a trial that the server failed has one, one that the Tester spoilt has none.
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
            Self::Trial(_) => Ok(()),
        }
    }

    /// It as it stands in its file.
    pub fn value(&self) -> serde_json::Value {
        let value = match self {
            Self::Search(results) => serde_json::to_value(results),
            Self::Trial(trial) => serde_json::to_value(trial),
        };
        value.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_counts_unless_it_is_void() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["trial".to_owned()];
        let load = || Visited::load(&arguments, directory.path());
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
