//! The other side of the control socket: `dns64d control`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the server may take to answer: a reload opens sockets and reads files.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest answer, in octets.
const ANSWER_OCTETS_MAX: u64 = 16 << 20;

/// Why a control command has no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The socket at this path cannot be used, and why.
    Unreachable(String, io::Error),
    /// The server does not do it, for this reason.
    Refused(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(path, error) => {
                write!(
                    f,
                    "no dns64d answers on {path}: {error}; is it running, with [control] in its configuration?"
                )
            }
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ClientError {}

/// Sends a command line and returns the answer.
///
/// # Errors
/// There is no server, it does not answer within a minute, or it refuses.
pub fn ask(socket: &Path, line: &str) -> Result<String, ClientError> {
    let answer = exchange(socket, line)
        .map_err(|error| ClientError::Unreachable(socket.display().to_string(), error))?;
    match answer.split_once('\n') {
        Some(("ok", body)) => Ok(body.to_owned()),
        Some(("error", reason)) => Err(ClientError::Refused(reason.trim_end().to_owned())),
        _ => {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the answer makes no sense");
            Err(ClientError::Unreachable(socket.display().to_string(), error))
        }
    }
}

fn exchange(socket: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(ANSWER_OCTETS_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}
