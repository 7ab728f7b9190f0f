//! The options that say how the AuthDNS answers.

use std::net::SocketAddr;

use clap::Args;

use authdns::{AuthorityConfig, ConnectionLimits, Io};

use crate::failure::Failure;
use crate::options::processors;

/// Options of the service.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Service")]
pub struct ServiceArgs {
    /// Address to answer on, over UDP and TCP; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_values = ["127.0.0.1:5300", "[::1]:5300"])]
    pub listen: Vec<SocketAddr>,
    /// I/O back-end for UDP
    #[arg(long, value_enum, default_value_t)]
    pub io: Io,
    /// Device for --io xdp and kernel [default: those that have the addresses]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Threads for UDP, and as many for DoT, DoH and DoQ together; --io xdp needs a receive queue for each;
    /// --io kernel has none, for its program runs on the processors that receive the queries
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Processors of these threads, at least one thread on each [default: the kernel's choice]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Connections at a time over TCP, and as many over DoT, DoH and DoQ together
    #[arg(long, value_name = "N", default_value_t = ConnectionLimits::default().connections,
        value_parser = connections)]
    pub connections: usize,
}

/// The most connections that can be asked for: 20 kB each over TCP.
const CONNECTIONS_MAX: usize = 1_000_000;

/// Reads a number of connections.
fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=CONNECTIONS_MAX).contains(number));
    number.ok_or_else(|| format!("must be a number from 1 to {CONNECTIONS_MAX}"))
}

impl ServiceArgs {
    /// What the options come to.
    ///
    /// # Errors
    /// A processor that may not be used.
    pub(super) fn config(&self) -> Result<AuthorityConfig, Failure> {
        let cpus = match self.cpus.as_slice() {
            [] => Vec::new(),
            chosen => processors(self.threads, chosen, &[])?,
        };
        Ok(AuthorityConfig {
            listen: self.listen.clone(),
            threads: cpus.len().max(self.threads.into()),
            in_threads: self.threads > 1 || !cpus.is_empty(),
            cpus,
            limits: ConnectionLimits { connections: self.connections, ..ConnectionLimits::default() },
            io: self.io,
            device: self.device.clone(),
            ..AuthorityConfig::default()
        })
    }
}
