//! What a manifest says of the machine's devices.

use serde::{Deserialize, Serialize};

/// Drivers of devices that are no hardware, real or virtual: queues and hashes mean nothing there.
const SOFTWARE_DRIVERS: [&str; 7] = ["veth", "bridge", "dummy", "tun", "bonding", "802.1Q VLAN Support", ""];

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkDevice {
    /// Its name, for example `eth0`.
    pub name: String,
    /// Its driver, for example `ixgbe`.
    pub driver: String,
    /// The largest packet in octets.
    pub mtu_octets: Option<usize>,
    /// Its receive queues.
    pub rx_queues: Option<usize>,
    /// The most it could have; `None` where the driver does not tell.
    pub rx_queues_max: Option<usize>,
    /// The kernel spreads what its first queue receives over processors (RPS).
    pub is_spread_by_kernel: bool,
    /// Whether the queue of a datagram over IPv4 depends on its ports; `None` where the driver does not tell.
    pub udp4_by_ports: Option<bool>,
    /// Likewise over IPv6.
    pub udp6_by_ports: Option<bool>,
    /// What it or the stack joins and cuts.
    pub offloads: Vec<String>,
}

impl NetworkDevice {
    /// Whether it has queues that spread packets over processors.
    pub fn is_hardware(&self) -> bool {
        !SOFTWARE_DRIVERS.contains(&self.driver.as_str())
    }

    /// What is known of it, in words.
    pub fn in_words(&self) -> String {
        let mut words = vec![if self.driver.is_empty() { "no driver" } else { &self.driver }.to_owned()];
        let of_most = self.rx_queues_max.map_or_else(String::new, |most| format!(" of {most}"));
        words.extend(self.rx_queues.map(|queues| format!("receive queues {queues}{of_most}")));
        words.extend(self.is_spread_by_kernel.then(|| "spread by the kernel (RPS)".to_owned()));
        let ports = [("IPv4", self.udp4_by_ports), ("IPv6", self.udp6_by_ports)];
        for (family, by_ports) in ports {
            words.extend(by_ports.map(|yes| {
                let by = if yes { "addresses and ports" } else { "addresses alone" };
                format!("UDP over {family} by {by}")
            }));
        }
        words.extend(self.mtu_octets.map(|mtu| format!("MTU {mtu}")));
        words.extend(self.offloads.iter().cloned());
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_known() {
        let device = NetworkDevice {
            driver: "ixgbe".into(),
            rx_queues: Some(8),
            rx_queues_max: Some(16),
            udp6_by_ports: Some(false),
            offloads: vec!["rx-gro".into()],
            ..NetworkDevice::default()
        };
        assert!(device.is_hardware());
        assert_eq!(
            device.in_words(),
            "ixgbe, receive queues 8 of 16, UDP over IPv6 by addresses alone, rx-gro"
        );
        assert_eq!(NetworkDevice::default().in_words(), "no driver");
    }
}
