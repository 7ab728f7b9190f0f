//! The reflector that the ladder asks before any server: this program again, unprivileged, with what any
//! server gets.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::{DUT_PORT, Site};
use lab::child::{Child, Launch};
use lab::network::Role;
use lab::scratch::Scratch;

/// How long it may take until it listens.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often its log is looked at.
const POLL: Duration = Duration::from_millis(10);
/// What it says before its addresses.
const READY: &str = "ready: ";

/// A running `sextant echo`. Dropping it stops it.
pub(super) struct Reflector {
    child: Child,
    pub address: SocketAddr,
}

impl Reflector {
    /// Starts one where the server under test would be, with so many workers on these processors.
    ///
    /// # Errors
    /// It cannot be started or does not listen; the message has what it said.
    pub fn start(site: &Site, workers: usize, cpus: &[usize]) -> io::Result<Self> {
        let port = if *site == Site::Loopback { 0 } else { DUT_PORT };
        let listen = SocketAddr::new(site.dut(), port).to_string();
        let workers = workers.to_string();
        let arguments = ["echo", "--listen", &listen, "--threads", &workers];
        let launch = Launch {
            label: "sextant echo".into(),
            program: std::env::current_exe()?,
            arguments: arguments.map(Into::into).into(),
            environment: Vec::new(),
            cpus: cpus.to_vec(),
            namespace: site.namespace(Role::Dut),
        };
        let mut child = Child::start(&launch, Scratch::new("echo", None)?)?;
        let started = Instant::now();
        loop {
            child.check_alive().map_err(io::Error::other)?;
            if let Some(address) = ready_at(&child.log()) {
                return Ok(Self { child, address });
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err(io::Error::other(format!("the reflector does not listen on {listen}")));
            }
            std::thread::sleep(POLL);
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// The address in the line that says that it listens.
fn ready_at(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once(READY)?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_its_own_words() {
        let log = "a\nsextant echo: ready: [::1]:4321 (1 thread)\n";
        assert_eq!(ready_at(log), Some("[::1]:4321".parse().unwrap()));
        assert_eq!(ready_at("sextant echo: cannot listen"), None);
        assert_eq!(ready_at("ready: "), None);
    }
}
