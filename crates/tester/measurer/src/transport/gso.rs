//! Where the `gso` back-end would not put packets on the wire.
//!
//! A message of several datagrams passes the stack whole until its device takes it apart
//! (`tx-udp-segmentation`) or, if the device cannot, until just before it. The loopback device never takes
//! the message apart. A veth says that it can, and hands the whole message to its peer. The server would then
//! be measured with one message instead of up to 64 packets.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use sys::link::{Device, device_to};

/// Drivers of virtual machines that pass a message on to the host, which may pass it on whole as well.
const GUEST_DRIVERS: [&str; 4] = ["virtio_net", "hv_netvsc", "vmxnet3", "xen_netfront"];
/// Drivers whose other end is memory of this machine.
const SOFTWARE_DRIVERS: [&str; 12] = [
    "veth",
    "bridge",
    "tun",
    "dummy",
    "macvlan",
    "ipvlan",
    "802.1Q VLAN Support",
    "team",
    "bonding",
    "ifb",
    "netkit",
    "openvswitch",
];

/// Why messages to this server would cross the way as they are, and what to do; `None` where they become
/// packets.
pub fn unsegmented(server: SocketAddr) -> Option<String> {
    match device_to(server) {
        Ok(device) => of_device(&device).unwrap_or_else(|error| Some(uncertain(&device.name, error))),
        Err(error) => Some(uncertain("the way to the server", error)),
    }
}

fn of_device(device: &Device) -> io::Result<Option<String>> {
    let name = &device.name;
    if name == "lo" {
        return Ok(Some(format!(
            "queries on loopback would arrive joined, as no network carries them; use --io udp, or say \
             --allow-unsegmented{NEVER_COMPARE}"
        )));
    }
    if !device.features()?.tx_udp_segmentation {
        return Ok(None);
    }
    let driver = device.driver()?;
    let passes_on = SOFTWARE_DRIVERS.contains(&driver.as_str()) || GUEST_DRIVERS.contains(&driver.as_str());
    Ok(passes_on.then(|| {
        format!(
            "{name} ({driver}) would pass queries on joined, as no network carries them; switch that off with \
             'ethtool -K {name} tx-udp-segmentation off', or say --allow-unsegmented{NEVER_COMPARE}"
        )
    }))
}

const NEVER_COMPARE: &str = ", and compare the result with nothing else";

fn uncertain(what: &str, error: impl fmt::Display) -> String {
    format!("whether {what} takes joined queries apart cannot be told ({error}); use --io udp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_no_packets() {
        for server in ["127.0.0.1:53", "[::1]:53"] {
            assert!(unsegmented(server.parse().unwrap()).unwrap().contains("use --io udp"));
        }
    }
}
