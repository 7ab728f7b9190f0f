//! The state of a running measurement for other threads. A reader never makes the Measurer wait.

use std::sync::{Mutex, PoisonError};

use engine::search::Bracket;
use measurer::live::Live;

/// The counts and the state of the measurement.
#[derive(Debug, Default)]
pub struct Watch {
    /// What the Measurer's threads have counted, over all trials.
    pub live: Live,
    now: Mutex<Now>,
    server: Mutex<Option<Server>>,
}

/// The server under test, for those who watch.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name and version of the server.
    pub name: String,
    /// Its processes, as far as they are known.
    pub pids: Vec<u32>,
    /// The port that is asked.
    pub port: u16,
}

/// What is being done.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// The trials begun so far, with those of the self-test.
    pub trials: u64,
    /// For example `search 2/3`; empty before the first trial.
    pub phase: String,
    /// The average rate of the trial under way in q/s; 0 between trials and in a closed loop.
    pub rate_qps: u64,
    /// The bracket of the search under way.
    pub bracket: Option<Bracket>,
}

impl Watch {
    /// What is being done now.
    pub fn now(&self) -> Now {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server under test, once it runs.
    pub fn server(&self) -> Option<Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server that is measured from now on.
    pub fn set_server(&self, server: Server) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    /// A trial begins.
    pub fn begin(&self, phase: &str, rate_qps: u64, bracket: Option<Bracket>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = Now { trials: now.trials + 1, phase: phase.to_owned(), rate_qps, bracket };
    }

    /// The trial that began last has ended.
    pub fn end(&self) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).rate_qps = 0;
    }
}
