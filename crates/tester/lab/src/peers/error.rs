//! Why a peer cannot be measured, in one line.

use std::{fmt, io};

use super::{all, authoritative};
use crate::child::DiedWith;

/// Why a peer cannot be measured. Each displays as one line that says what to do.
#[derive(Debug)]
pub enum PeerError {
    /// No peer has this name.
    Unknown(String),
    /// No authoritative server has this name.
    UnknownAuthoritative(String),
    /// Its program is not installed.
    Missing {
        /// The peer.
        peer: &'static str,
        /// The program that was looked for.
        program: &'static str,
        /// The package that holds it.
        package: Option<&'static str>,
        /// How it is had where there is no package.
        built_by: Option<&'static str>,
    },
    /// It cannot be started with these settings: why, and what to do.
    Unsuitable(String),
    /// It could not be started or prepared.
    Start(io::Error),
    /// It ended before it answered.
    Died {
        /// How, with its last words.
        died: DiedWith,
        /// What else may have been the cause.
        hint: Option<String>,
    },
    /// The user ended the wait for it.
    Interrupted(&'static str),
    /// It did not give the right answer in time.
    NotReady {
        /// The peer.
        peer: &'static str,
        /// How long it was asked, in seconds.
        waited_s: u64,
        /// The last thing that came instead of the right answer.
        last: String,
    },
}

impl PeerError {
    /// The program's exit code for it: 2 for a wrong name or settings, 3 for everything that is this
    /// machine's fault.
    pub fn exit_code(&self) -> u8 {
        let wrong = matches!(self, Self::Unknown(_) | Self::UnknownAuthoritative(_) | Self::Unsuitable(_));
        if wrong { 2 } else { 3 }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let names: Vec<_> = all().iter().map(|peer| peer.name).collect();
                write!(f, "there is no peer '{name}'; choose one of {}", names.join(", "))
            }
            Self::UnknownAuthoritative(name) => {
                let names: Vec<_> = authoritative::all().iter().map(|server| server.name).collect();
                write!(f, "there is no authoritative server '{name}'; choose one of {}", names.join(", "))
            }
            Self::Missing { peer, program, package: Some(package), .. } => {
                write!(f, "{peer}: {program} is not installed; install it with: apt-get install {package}")
            }
            Self::Missing { peer, program, built_by: Some(how), .. } => {
                write!(f, "{peer}: no program {program} on the PATH; {how}")
            }
            Self::Missing { peer, program, .. } => write!(
                f,
                "{peer}: no program {program} beside this one or on the PATH; build it with: cargo build --release --bins"
            ),
            Self::Unsuitable(why) => f.write_str(why),
            Self::Start(error) => error.fmt(f),
            Self::Died { died, hint } => {
                died.fmt(f)?;
                hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
            }
            Self::Interrupted(peer) => write!(f, "interrupted while {peer} was starting"),
            Self::NotReady { peer, waited_s, last } => {
                write!(f, "{peer} did not answer rightly within {waited_s} s: {last}")
            }
        }
    }
}

impl std::error::Error for PeerError {}
