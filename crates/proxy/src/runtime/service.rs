//! The server as the program leads it.

use std::net::SocketAddr;

use super::{Server, ServerError};
use crate::cache::{Cache, Flush};
use crate::config::{Config, ListenProtocol};
use crate::daemon::Service;
use crate::snapshot::{Reading, UpstreamState};
use crate::stats::Stats;

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

    fn readings(&self) -> Vec<Reading> {
        self.readings()
    }

    fn stop(self) -> Result<Stats, ServerError> {
        self.stop()
    }
}
