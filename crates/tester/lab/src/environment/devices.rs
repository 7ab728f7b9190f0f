//! Network devices: what decides on which processor a packet is worked on, and in how large pieces.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use record::machine::NetworkDevice;
use sys::link::{Device, addresses, device_to};

/// Offloads that are worth naming, as `ethtool -k` does.
const OFFLOADS: [&str; 6] =
    ["rx-gro", "rx-gro-hw", "rx-lro", "rx-udp-gro-forwarding", "tx-tcp-segmentation", "tx-udp-segmentation"];

/// Which devices of this process's network namespace the path of a measurement uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathDevices {
    /// Not known: any of them.
    Any,
    /// These, by their names.
    Named(BTreeSet<String>),
    /// None, and nothing else of the namespace: a lab has namespaces of its own.
    Lab,
}

impl PathDevices {
    /// Those by which this machine asks the server, and by which the AuthDNS at an address of this machine is
    /// asked.
    pub fn of(server: SocketAddr, auth: Option<IpAddr>) -> Self {
        let Ok(towards) = device_to(server) else { return Self::Any };
        let mut names = BTreeSet::from([towards.name]);
        if let Some(auth) = auth {
            let Some(device) = device_with(auth) else { return Self::Any };
            names.insert(device);
        }
        Self::Named(names)
    }

    /// Whether the path may use this device.
    pub fn uses(&self, device: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.contains(device),
            Self::Lab => false,
        }
    }
}

fn device_with(address: IpAddr) -> Option<String> {
    let all = addresses().ok()?;
    all.into_iter().find(|assigned| assigned.address == address).map(|assigned| assigned.device)
}

/// Those with an address in the calling thread's namespace, but for the loopback.
pub(super) fn devices() -> Vec<NetworkDevice> {
    let with_address = addresses().unwrap_or_default();
    let names: BTreeSet<String> = with_address.into_iter().map(|assigned| assigned.device).collect();
    names.iter().filter(|name| *name != "lo").filter_map(|name| device_named(name)).collect()
}

/// The device of that name; `None` if there is none.
pub fn device_named(name: &str) -> Option<NetworkDevice> {
    let device = Device::named(name).ok()?;
    let active = device.features().map(|features| features.active).unwrap_or_default();
    Some(NetworkDevice {
        name: name.to_owned(),
        driver: device.driver().unwrap_or_default(),
        mtu_octets: device.mtu().ok(),
        rx_queues: device.rx_queues().ok(),
        rx_queues_max: device.rx_queues_max(),
        is_spread_by_kernel: is_spread_by_kernel(name),
        udp4_by_ports: device.udp_hash_has_ports(false),
        udp6_by_ports: device.udp_hash_has_ports(true),
        offloads: OFFLOADS.iter().filter(|name| active.contains(**name)).map(ToString::to_string).collect(),
    })
}

/// Whether its first queue has a mask of processors that is not zero.
fn is_spread_by_kernel(device: &str) -> bool {
    let mask = std::fs::read_to_string(format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"));
    mask.is_ok_and(|mask| mask.chars().any(|digit| matches!(digit, '1'..='9' | 'a'..='f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_this_machine_are_read_and_nobody_has_what_is_not_there() {
        assert_eq!(device_named("no-such-device"), None);
        let loopback = device_named("lo").unwrap();
        assert!(loopback.mtu_octets.is_some() && !loopback.is_hardware(), "{loopback:?}");
        assert!(devices().iter().all(|device| device.name != "lo"));
    }
}
