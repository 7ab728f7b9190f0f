//! Which TCP ports a configuration needs.

use crate::config::{Config, UpstreamProtocol};

/// The TCP ports that a process may still listen on and connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpPorts {
    /// Those of listeners and metrics; 0 where the kernel chooses.
    pub(super) bind: Vec<u16>,
    /// Those of upstream servers.
    pub(super) connect: Vec<u16>,
}

impl TcpPorts {
    /// What a configuration needs.
    pub fn by(config: &Config) -> Self {
        let listeners = config.listen.iter().filter(|listen| listen.protocol.is_over_tcp());
        let listeners = listeners.map(|listen| listen.address.port());
        // To ask from an address of its own, a socket is bound before it connects.
        let sources = config.upstreams.iter().filter(|server| server.source.is_some()).map(|_| 0);
        let servers = config.upstreams.iter().filter(|server| server.protocol != UpstreamProtocol::Quic);
        let servers = servers.map(|server| server.address.port());
        Self {
            bind: listeners.chain(config.metrics.map(|address| address.port())).chain(sources).collect(),
            connect: servers.collect(),
        }
    }

    /// Whether these ports are enough for another configuration.
    pub fn suffice(&self, needed: &Self) -> bool {
        needed.bind.iter().all(|port| self.bind.contains(port))
            && needed.connect.iter().all(|port| self.connect.contains(port))
    }
}
