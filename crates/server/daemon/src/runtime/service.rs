//! The server, as the program starts, reloads and ends it.

use std::fmt::Display;
use std::net::SocketAddr;

use server_core::cache::{Cache, Flush};
use server_core::stats::Stats;

use super::{Server, ServerError};
use crate::config::{Config, ListenProtocol};
use crate::snapshot::{Metric, UpstreamState};

/// What the program around a server needs of it.
pub trait Service: Sized {
    /// Why it does not start, reload or stop well: one line.
    type Error: Display;

    /// The addresses it answers on, with the ports that were free where the configuration left the choice.
    fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)>;

    /// The number of threads that answer.
    fn threads(&self) -> usize;

    /// Takes on a new configuration as a whole.
    ///
    /// # Errors
    /// It cannot; then the old one goes on.
    fn reload(&mut self, config: &Config) -> Result<(), Self::Error>;

    /// What all machines counted so far.
    fn stats(&self) -> Stats;

    /// The upstream servers, in the order of the configuration.
    fn upstreams(&self) -> Vec<UpstreamState>;

    /// The cache in force, for the commands that show or flush it.
    fn cache(&self) -> &Cache;

    /// Forgets entries of the cache, and what was made of them; returns how many entries.
    fn forget(&self, what: &Flush) -> usize {
        self.cache().flush(what)
    }

    /// What else it can tell, of its streams for example.
    fn readings(&self) -> Vec<Metric>;

    /// Asks every thread for a sign of life, and returns the names of those that have given none since they
    /// were last asked.
    fn silent_threads(&self) -> Vec<String>;

    /// Ends all threads and returns what they counted.
    ///
    /// # Errors
    /// The first error of a thread that had ended by itself.
    fn stop(self) -> Result<Stats, Self::Error>;
}

impl Service for Server {
    type Error = ServerError;

    fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        self.addresses().to_vec()
    }

    fn threads(&self) -> usize {
        self.threads()
    }

    fn reload(&mut self, config: &Config) -> Result<(), ServerError> {
        self.reload(config)
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn upstreams(&self) -> Vec<UpstreamState> {
        self.upstreams()
    }

    fn cache(&self) -> &Cache {
        self.cache()
    }

    fn forget(&self, what: &Flush) -> usize {
        self.forget(what)
    }

    fn readings(&self) -> Vec<Metric> {
        self.readings()
    }

    fn silent_threads(&self) -> Vec<String> {
        self.silent_threads()
    }

    fn stop(self) -> Result<Stats, ServerError> {
        self.stop()
    }
}
