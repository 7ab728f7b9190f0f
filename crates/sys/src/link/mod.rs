//! Network devices, the route to a server for frames that bypass the stack, and the making of devices and
//! routes.
//!
//! Everything is in the network namespace of the calling thread, by netlink and ioctl alone: files
//! under `/sys/class/net` show the namespace in which `/sys` was mounted.

mod addresses;
mod changes;
mod ethtool;
mod hop;
mod netlink;
mod path;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(crate) use netlink::{Attributes, u32_at};
use netlink::{Reply, Request, u16_at, u64_at};

pub use addresses::{Assigned, addresses};
pub use changes::Changes;
pub use hop::{Hop, next_hop};
pub use path::{Path, PathError, device_to, path_to, path_via};
pub use settings::{Network, VethEnd, add_route, add_veth};

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Its number, unique in its namespace.
    pub index: u32,
    /// Its name, for example `eth0`.
    pub name: String,
}

/// Offloads that matter to a Tester, as they are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The device (or, for veth, nobody) cuts UDP super-packets (`tx-udp-segmentation`).
    pub tx_udp_segmentation: bool,
    /// The device cuts TCP super-packets (`tx-tcp-segmentation`).
    pub tso: bool,
    /// The stack cuts super-packets as late as possible (`tx-generic-segmentation`).
    pub gso: bool,
    /// The stack joins received packets (`rx-gro`).
    pub gro: bool,
    /// Datagrams are joined too, even without a socket that asked for it (`rx-udp-gro-forwarding`).
    pub rx_udp_gro_forwarding: bool,
    /// The device joins received packets (`rx-gro-hw` or `rx-lro`).
    pub rx_coalescing: bool,
    /// Checksums of sent packets are left to the device (`tx-checksum-ip-generic` or `-ipv4`, `-ipv6`).
    pub tx_checksum: bool,
    /// The names of all features in force, as `ethtool -k` knows them to the kernel.
    pub active: BTreeSet<String>,
}

/// `struct ifinfomsg`: family, padding, type, index, flags, mask.
const IFINFOMSG_OCTETS: usize = 16;
/// `ARPHRD_ETHER`.
const TYPE_ETHERNET: u16 = 1;

impl Device {
    /// The device of that name.
    ///
    /// # Errors
    /// There is none in this namespace.
    pub fn named(name: &str) -> io::Result<Self> {
        let reply = Request::new(libc::RTM_GETLINK, &[0; IFINFOMSG_OCTETS])
            .with_name(libc::IFLA_IFNAME, name)
            .ask(IFINFOMSG_OCTETS)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ENODEV | libc::ERANGE | libc::EINVAL) => {
                    io::Error::new(io::ErrorKind::NotFound, format!("there is no network device {name:?}"))
                }
                _ => error,
            })?;
        Ok(Self::of(&reply))
    }

    /// The device of that number.
    ///
    /// # Errors
    /// There is none in this namespace.
    pub fn by_index(index: u32) -> io::Result<Self> {
        Ok(Self::of(&describe(index)?))
    }

    fn of(reply: &Reply) -> Self {
        let name = reply.attribute(libc::IFLA_IFNAME).unwrap_or_default();
        Self {
            index: u32_at(reply.fixed(), 4).unwrap_or(0),
            name: String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(),
        }
    }

    /// The device on which the frames of this one appear with their VLAN tags, where that is another one,
    /// even through several layers; else itself.
    ///
    /// # Errors
    /// It is gone.
    pub fn below_vlans(&self) -> io::Result<Self> {
        /// What ethtool(8) calls the kind; `IFLA_LINK_NETNSID`: the other device is in another namespace.
        const VLAN_DRIVER: &str = "802.1Q VLAN Support";
        const OTHER_NAMESPACE: u16 = 37;
        const LAYERS_MAX: usize = 8;
        let mut device = self.clone();
        for _ in 0..LAYERS_MAX {
            if device.driver()? != VLAN_DRIVER {
                break;
            }
            let reply = describe(device.index)?;
            match reply.number(libc::IFLA_LINK) {
                Some(below) if reply.attribute(OTHER_NAMESPACE).is_none() => device = Self::by_index(below)?,
                _ => break,
            }
        }
        Ok(device)
    }

    /// Whether it takes VLAN tags off frames before a program sees them (`rx-vlan-hw-parse`): the program
    /// cannot tell the VLANs apart, and its answers leave without tags.
    ///
    /// # Errors
    /// It is gone.
    pub fn hides_vlan_tags(&self) -> io::Result<bool> {
        let active = self.features()?.active;
        Ok(["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"].iter().any(|feature| active.contains(*feature)))
    }

    /// Its Ethernet address.
    ///
    /// # Errors
    /// It is gone, or has no Ethernet (`lo`, tunnels): [`io::ErrorKind::Unsupported`].
    pub fn hardware_address(&self) -> io::Result<[u8; 6]> {
        let reply = describe(self.index)?;
        let is_ethernet = u16_at(reply.fixed(), 2) == Some(TYPE_ETHERNET);
        let address = reply.attribute(libc::IFLA_ADDRESS).and_then(|octets| octets.try_into().ok());
        address.filter(|_| is_ethernet).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, format!("{} has no Ethernet", self.name))
        })
    }

    /// The longest packet, in octets, without the Ethernet header.
    ///
    /// # Errors
    /// It is gone.
    pub fn mtu(&self) -> io::Result<usize> {
        Ok(describe(self.index)?.number(libc::IFLA_MTU).unwrap_or(0) as usize)
    }

    /// Whether it is up and has a carrier.
    ///
    /// # Errors
    /// It is gone.
    pub fn is_running(&self) -> io::Result<bool> {
        let flags = u32_at(describe(self.index)?.fixed(), 8).unwrap_or(0);
        let needed = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
        Ok(flags & needed == needed)
    }

    /// The number of its receive queues, at least one: the channels that receive, combined or not, and where
    /// the driver does not tell (`ethtool -l`), the queues that were made for it.
    ///
    /// # Errors
    /// It is gone.
    pub fn rx_queues(&self) -> io::Result<usize> {
        if let Ok((channels, _)) = ethtool::receiving_channels(&self.name)
            && channels > 0
        {
            return Ok(channels);
        }
        Ok(describe(self.index)?.number(libc::IFLA_NUM_RX_QUEUES).unwrap_or(1).max(1) as usize)
    }

    /// The most receive queues that it could have; `None` where the driver does not tell.
    pub fn rx_queues_max(&self) -> Option<usize> {
        ethtool::receiving_channels(&self.name).ok().map(|(_, most)| most).filter(|&most| most > 0)
    }

    /// Whether the receive queue of a UDP datagram depends on its ports, too
    /// (`ethtool -n DEVICE rx-flow-hash udp6`); `None` where the driver does not tell.
    pub fn udp_hash_has_ports(&self, ipv6: bool) -> Option<bool> {
        ethtool::udp_hash_has_ports(&self.name, ipv6).ok()
    }

    /// The name of its driver, for example `veth`; empty where it has none.
    ///
    /// # Errors
    /// It is gone.
    pub fn driver(&self) -> io::Result<String> {
        or_default(ethtool::driver(&self.name))
    }

    /// The offloads that are on.
    ///
    /// # Errors
    /// It is gone.
    pub fn features(&self) -> io::Result<Features> {
        let active: BTreeSet<String> =
            or_default(ethtool::active_features(&self.name))?.into_iter().collect();
        let is_on = |name: &str| active.contains(name);
        Ok(Features {
            tx_udp_segmentation: is_on("tx-udp-segmentation"),
            tso: is_on("tx-tcp-segmentation"),
            gso: is_on("tx-generic-segmentation"),
            gro: is_on("rx-gro"),
            rx_udp_gro_forwarding: is_on("rx-udp-gro-forwarding"),
            rx_coalescing: is_on("rx-gro-hw") || is_on("rx-lro"),
            tx_checksum: is_on("tx-checksum-ip-generic")
                || is_on("tx-checksum-ipv4")
                || is_on("tx-checksum-ipv6"),
            active,
        })
    }

    /// Its counters: the stack's (`ip -s link`) with `link.` before their names, its driver's (`ethtool -S`)
    /// with `ethtool.`. A name that a driver uses several times has the sum.
    ///
    /// # Errors
    /// It is gone.
    pub fn statistics(&self) -> io::Result<BTreeMap<String, u64>> {
        let reply = describe(self.index)?;
        let values = reply.attribute(libc::IFLA_STATS64).unwrap_or_default();
        let of_stack = LINK_COUNTERS.iter().enumerate().filter_map(|(position, name)| {
            u64_at(values, 8 * position).map(|value| (format!("link.{name}"), value))
        });
        let of_driver = or_default(ethtool::statistics(&self.name))?;
        let of_driver = of_driver.into_iter().map(|(name, value)| (format!("ethtool.{name}"), value));
        let mut all = BTreeMap::new();
        for (name, value) in of_stack.chain(of_driver) {
            let sum = all.entry(name).or_insert(0u64);
            *sum = sum.wrapping_add(value);
        }
        Ok(all)
    }
}

/// The values of `struct rtnl_link_stats64`, in its order.
const LINK_COUNTERS: [&str; 25] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
];

/// Asks for all about a device (`RTM_GETLINK`).
pub(crate) fn describe(index: u32) -> io::Result<Reply> {
    let mut fixed = [0; IFINFOMSG_OCTETS];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    Request::new(libc::RTM_GETLINK, &fixed).ask(IFINFOMSG_OCTETS)
}

/// A driver without a command has nothing to tell.
fn or_default<T: Default>(told: io::Result<T>) -> io::Result<T> {
    match told {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(T::default()),
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_known_by_name_and_number_and_has_no_ethernet() {
        let lo = Device::named("lo").unwrap();
        assert_eq!(Device::by_index(lo.index).unwrap(), lo);
        assert_eq!(lo.hardware_address().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(lo.mtu().unwrap() >= 1500);
        assert_eq!(lo.rx_queues().unwrap(), 1);
        assert!(lo.features().unwrap().tx_udp_segmentation);
        let missing = Device::named("no-such-device-of-that-name").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("no-such-device"));
    }

    #[test]
    fn counters_move_with_the_traffic() {
        let lo = Device::named("lo").unwrap();
        let before = lo.statistics().unwrap()["link.tx_packets"];
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 10], socket.local_addr().unwrap()).unwrap();
        assert!(lo.statistics().unwrap()["link.tx_packets"] > before);
    }
}
