//! The options that say how the AuthDNS answers.

use std::net::SocketAddr;

use clap::Args;

use authdns::{AuthorityConfig, Io, TcpLimits};

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
    /// Threads for UDP
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Keep each thread on a processor of its own
    #[arg(long)]
    pub pin: bool,
}

impl ServiceArgs {
    /// What the options come to.
    pub fn config(&self) -> AuthorityConfig {
        AuthorityConfig {
            listen: self.listen.clone(),
            threads: self.threads.into(),
            cpus: if self.pin { sys::cpu::available() } else { Vec::new() },
            tcp: Some(TcpLimits::default()),
            io: self.io,
            device: self.device.clone(),
            ..AuthorityConfig::default()
        }
    }
}
