//! Devices, addresses, neighbours and routes, made and changed in the network namespace of the calling thread
//! (rtnetlink(7)). All of it needs `CAP_NET_ADMIN`.

use std::fmt::{self, Display};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use super::netlink::Request;
use super::path::{NDMSG_OCTETS, RTMSG_OCTETS, family_and_bits};
use super::{Device, IFINFOMSG_OCTETS, describe, ethtool};
use crate::netns;

/// One end of a pair of virtual Ethernet devices (veth(4)).
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'n> {
    /// The device.
    pub name: &'n str,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The name of its network namespace.
    pub namespace: &'n str,
    /// Its queues in each direction.
    pub queues: u16,
}

/// A range of addresses: those that begin with the first `bits` bits of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    pub address: IpAddr,
    /// The length of the common prefix.
    pub bits: u8,
}

impl Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// `VETH_INFO_PEER` (`linux/veth.h`).
const VETH_INFO_PEER: u16 = 1;
/// `IFLA_INET6_ADDR_GEN_MODE` and its value for no address at all (`linux/if_link.h`).
const INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;
/// `struct ifaddrmsg`: family, bits of the prefix, flags, scope, device.
const IFADDRMSG_OCTETS: usize = 8;
/// `struct tcmsg`: family, padding, device, handle, parent, information.
const TCMSG_OCTETS: usize = 20;
/// `TC_H_ROOT` (`linux/pkt_sched.h`).
const ROOT: u32 = u32::MAX;

/// Adds what went wrong to the kernel's reason.
fn explain(what: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Makes a pair of devices, each in its namespace, and down.
///
/// # Errors
/// A namespace is not there, a name is taken, or the kernel has no such devices; the message says which.
pub fn add_veth(near: &VethEnd<'_>, far: &VethEnd<'_>) -> io::Result<()> {
    let inside = [netns::open(near.namespace)?, netns::open(far.namespace)?];
    let end = |request: Request, end: &VethEnd<'_>, inside: &std::fs::File| {
        let queues = u32::from(end.queues).to_ne_bytes();
        request
            .with_name(libc::IFLA_IFNAME, end.name)
            .with(libc::IFLA_ADDRESS, &end.mac)
            .with(libc::IFLA_NUM_TX_QUEUES, &queues)
            .with(libc::IFLA_NUM_RX_QUEUES, &queues)
            .with(libc::IFLA_NET_NS_FD, &inside.as_raw_fd().to_ne_bytes())
    };
    let peer = |data: Request| end(data.with_fixed(&[0; IFINFOMSG_OCTETS]), far, &inside[1]);
    let link = |info: Request| {
        info.with_name(libc::IFLA_INFO_KIND, "veth")
            .with_nested(libc::IFLA_INFO_DATA, |data| data.with_nested(VETH_INFO_PEER, peer))
    };
    end(Request::new(libc::RTM_NEWLINK, &[0; IFINFOMSG_OCTETS]), near, &inside[0])
        .with_nested(libc::IFLA_LINKINFO, link)
        .change(libc::NLM_F_CREATE | libc::NLM_F_EXCL)
        .map_err(|error| {
            let [near, far] = [near, far].map(|end| format!("{} in {}", end.name, end.namespace));
            let reason = match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => "the kernel has no veth devices: modprobe veth".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("cannot make the link of {near} and {far}: {reason}"))
        })
}

/// Adds a route by a neighbour.
///
/// # Errors
/// There is one already, or no way to the neighbour; the message says which route.
pub fn add_route(to: Network, via: IpAddr) -> io::Result<()> {
    route(to, libc::RT_TABLE_MAIN, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST)
        .with_address(libc::RTA_GATEWAY, via)
        .change(libc::NLM_F_CREATE | libc::NLM_F_EXCL)
        .map_err(explain(format_args!("cannot add the route to {to} via {via}")))
}

/// A message about a route.
fn route(to: Network, table: u8, scope: u8, kind: u8) -> Request {
    let mut fixed = [0; RTMSG_OCTETS];
    fixed[0] = family_and_bits(to.address).0;
    fixed[1] = to.bits;
    fixed[4..8].copy_from_slice(&[table, libc::RTPROT_BOOT, scope, kind]);
    Request::new(libc::RTM_NEWROUTE, &fixed).with_address(libc::RTA_DST, to.address)
}

impl Device {
    /// Its alias (`ip link set alias`), if it has one.
    ///
    /// # Errors
    /// It is gone.
    pub fn alias(&self) -> io::Result<Option<String>> {
        let reply = describe(self.index)?;
        let alias = reply.attribute(libc::IFLA_IFALIAS).map(String::from_utf8_lossy);
        Ok(alias.map(|alias| alias.trim_end_matches('\0').to_owned()))
    }

    /// Gives it an alias of at most 255 octets.
    ///
    /// # Errors
    /// It is gone, or the process may not.
    pub fn set_alias(&self, alias: &str) -> io::Result<()> {
        self.link(0, 0)
            .with(libc::IFLA_IFALIAS, alias.as_bytes())
            .change(0)
            .map_err(explain(format_args!("cannot give {} an alias", self.name)))
    }

    /// Sets it up.
    ///
    /// # Errors
    /// It is gone, or the process may not.
    pub fn set_up(&self) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        self.link(up, up).change(0).map_err(explain(format_args!("cannot set {} up", self.name)))
    }

    /// Lets nothing leave it that nobody sent: no link-local address, hence no router solicitation, and no
    /// multicast.
    ///
    /// # Errors
    /// It is gone, or the process may not.
    pub fn silence(&self) -> io::Result<()> {
        let inet6 = |options: Request| options.with(INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        self.link(0, libc::IFF_MULTICAST as u32)
            .with_nested(libc::IFLA_AF_SPEC, |families| families.with_nested(libc::AF_INET6 as u16, inet6))
            .change(0)
            .map_err(explain(format_args!("cannot switch off the multicast of {}", self.name)))
    }

    /// Removes it, and with one end of a pair the other.
    ///
    /// # Errors
    /// It is gone, or cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        let mut fixed = [0; IFINFOMSG_OCTETS];
        fixed[4..8].copy_from_slice(&self.index.to_ne_bytes());
        Request::new(libc::RTM_DELLINK, &fixed)
            .change(0)
            .map_err(explain(format_args!("cannot remove {}", self.name)))
    }

    /// Gives it an address, which is in use at once: nobody is asked whether they have it, too.
    ///
    /// # Errors
    /// It has the address already, or is gone.
    pub fn add_address(&self, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let mut fixed = [0; IFADDRMSG_OCTETS];
        fixed[..3].copy_from_slice(&[family_and_bits(address).0, prefix_bits, libc::IFA_F_NODAD as u8]);
        fixed[4..8].copy_from_slice(&self.index.to_ne_bytes());
        Request::new(libc::RTM_NEWADDR, &fixed)
            .with_address(libc::IFA_LOCAL, address)
            .with_address(libc::IFA_ADDRESS, address)
            .change(libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .map_err(explain(format_args!("cannot give {} the address {address}/{prefix_bits}", self.name)))
    }

    /// Fixes the Ethernet address of a neighbour, for which nobody is asked then.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn fix_neighbour(&self, neighbour: IpAddr, mac: [u8; 6]) -> io::Result<()> {
        let mut fixed = [0; NDMSG_OCTETS];
        fixed[0] = family_and_bits(neighbour).0;
        fixed[4..8].copy_from_slice(&self.index.to_ne_bytes());
        fixed[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        Request::new(libc::RTM_NEWNEIGH, &fixed)
            .with_address(libc::NDA_DST, neighbour)
            .with(libc::NDA_LLADDR, &mac)
            .change(libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
            .map_err(explain(format_args!("cannot fix the neighbour {neighbour} of {}", self.name)))
    }

    /// Makes the addresses of a network this machine's own, by this device, without giving it each of them.
    ///
    /// # Errors
    /// They are so already, or the device is gone.
    pub fn take_network(&self, network: Network) -> io::Result<()> {
        route(network, libc::RT_TABLE_LOCAL, libc::RT_SCOPE_HOST, libc::RTN_LOCAL)
            .with(libc::RTA_OIF, &self.index.to_ne_bytes())
            .change(libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .map_err(explain(format_args!("cannot make {network} local by {}", self.name)))
    }

    /// Puts a queue for so many packets before it (tc-pfifo(8)), in place of what is there.
    ///
    /// # Errors
    /// The device is gone, or the kernel has no such queues.
    pub fn set_queue(&self, packets_max: u32) -> io::Result<()> {
        let mut fixed = [0; TCMSG_OCTETS];
        fixed[4..8].copy_from_slice(&self.index.to_ne_bytes());
        fixed[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        Request::new(libc::RTM_NEWQDISC, &fixed)
            .with_name(libc::TCA_KIND, "pfifo")
            .with(libc::TCA_OPTIONS, &packets_max.to_ne_bytes())
            .change(libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
            .map_err(explain(format_args!("cannot put a queue (pfifo) before {}", self.name)))
    }

    /// Switches the offloads on or off whose names are meant (as in [`Features::active`]); those that the
    /// driver does not let be switched stay as they are.
    ///
    /// [`Features::active`]: super::Features::active
    ///
    /// # Errors
    /// It is gone, the process may not, or the kernel refuses: none of them may be on afterwards, or at least
    /// one must be.
    pub fn switch_offloads(&self, is_meant: impl Fn(&str) -> bool, on: bool) -> io::Result<()> {
        let state = if on { "on" } else { "off" };
        let failed = || explain(format!("cannot switch offloads of {} {state}", self.name));
        ethtool::set_features(&self.name, &is_meant, on).map_err(failed())?;
        let active = ethtool::active_features(&self.name).map_err(failed())?;
        let active: Vec<String> = active.into_iter().filter(|name| is_meant(name)).collect();
        if active.is_empty() != on {
            return Ok(());
        }
        let names =
            if on { "none of them is".to_owned() } else { format!("{} still are", active.join(", ")) };
        Err(failed()(io::Error::new(io::ErrorKind::Unsupported, format!("{names} on"))))
    }

    /// A message that changes the device: flags of those in `mask`, and attributes.
    fn link(&self, flags: u32, mask: u32) -> Request {
        let mut fixed = [0; IFINFOMSG_OCTETS];
        for (at, word) in [(4, self.index), (8, flags), (12, mask)] {
            fixed[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        Request::new(libc::RTM_SETLINK, &fixed)
    }
}
