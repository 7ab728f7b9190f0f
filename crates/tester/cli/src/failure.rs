//! How commands fail, and how they print.

use std::fmt;
use std::io::{ErrorKind, Write};

use campaign::{MeasureError, Unreached};
use serde::Serialize;

use crate::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};

/// Why a command ends without having done its work.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    message: String,
}

impl Failure {
    /// One line that says what is wrong, where, and what to do.
    pub fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        let code = if error.is_usage() { EXIT_USAGE } else { EXIT_UNFIT };
        Self::new(code, error)
    }
}

impl From<Unreached> for Failure {
    fn from(why: Unreached) -> Self {
        match why {
            Unreached::Interrupted => Self::new(EXIT_UNFIT, "interrupted; nothing was measured"),
            Unreached::Tester(reason) => Self::new(EXIT_UNFIT, reason),
            Unreached::Server(reason) => Self::new(EXIT_FAILED, reason),
        }
    }
}

/// Writes to standard output. A reader that has gone away has seen enough.
///
/// # Errors
/// It cannot be written, for example because the disk is full.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(EXIT_UNFIT, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON value and the end of its line to standard output.
///
/// # Errors
/// Likewise.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    print(&format!("{text}\n"))
}

/// The exit code of a trial's outcome.
pub fn outcome_code(outcome: record::Outcome) -> u8 {
    match outcome {
        record::Outcome::Pass => 0,
        record::Outcome::Fail => EXIT_FAILED,
        record::Outcome::Void => EXIT_UNFIT,
    }
}
