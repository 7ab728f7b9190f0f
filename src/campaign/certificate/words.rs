//! What a certificate is about, in words.

use std::fmt;

use super::{Asked, AuthHalf, DeviceFacts, Measurer, PathTaken};
use crate::report::number::plural;

impl fmt::Display for PathTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, family, server, device, auth_device } = self;
        let at = if server.is_empty() { String::new() } else { format!(" at {server}") };
        write!(f, "{kind}{at} over {family}")?;
        [device, auth_device].into_iter().flatten().try_for_each(|device| write!(f, ", {device}"))
    }
}

impl fmt::Display for DeviceFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, driver, mtu_octets, rx_queues } = self;
        let driver = if driver.is_empty() { String::new() } else { format!("{driver}, ") };
        write!(f, "{name} ({driver}{mtu_octets} octets, {})", plural(*rx_queues, "queue", "queues"))
    }
}

impl fmt::Display for Measurer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { io, cpus, ports, receive_buffer_octets } = self;
        let ports = plural(*ports, "source port", "source ports");
        write!(f, "{io}, threads on processors {cpus:?}, {ports}, buffers of {receive_buffer_octets} octets")
    }
}

impl fmt::Display for AuthHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.io.as_str(), self.threads) {
            ("", _) => f.write_str("somebody else's"),
            (io, 0) => write!(f, "{io}, in the Measurer's first thread"),
            (io, threads) => write!(f, "{io}, {}", plural(threads, "thread", "threads")),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suffix, names, prefix, validity, edns_octets, others } = self;
        write!(f, "AAAA of {names} below {suffix}")?;
        match edns_octets {
            Some(octets) => write!(f, ", OPT of {octets} octets")?,
            None => f.write_str(", no OPT")?,
        }
        if !others.is_empty() {
            write!(f, ", {others}")?;
        }
        write!(f, "; answers {validity}, below {prefix}")
    }
}
