//! The links and addresses of a lab: the same in every lab, so that documents can show complete commands.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;
use serde::Serialize;

/// Sources that clients may have beside the Tester's own addresses: the Tester may bind any of them, and DUT
/// and AuthDNS answer them through the Tester. From the range for benchmarks (RFC 2544 C.2.2, 198.18.0.0/15).
pub const SOURCES_IPV4: &str = "198.19.0.0/16";
/// Likewise for IPv6, from RFC 5180 section 8, `2001:2::/48`.
pub const SOURCES_IPV6: &str = "2001:2:0:c000::/52";

/// The pairs that are joined: the DNS64 test of RFC 8219 section 9, and its self-test.
pub const LINKS: [(Role, Role); 3] =
    [(Role::Tester, Role::Dut), (Role::Dut, Role::Auth), (Role::Tester, Role::Auth)];

/// A machine of the test, here a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The Measurer.
    Tester,
    /// The device under test.
    Dut,
    /// The AuthDNS.
    Auth,
}

impl Role {
    /// The three roles in the order of a query.
    pub const ALL: [Self; 3] = [Self::Tester, Self::Dut, Self::Auth];

    /// The name in options and namespaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tester => "tester",
            Self::Dut => "dut",
            Self::Auth => "auth",
        }
    }

    /// Its number in all addresses, 1 to 3.
    fn number(self) -> u8 {
        match self {
            Self::Tester => 1,
            Self::Dut => 2,
            Self::Auth => 3,
        }
    }

    /// The other two roles, to which this one has a link each.
    pub fn peers(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |&role| role != self)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// The machine that has this end.
    pub role: Role,
    /// The machine at the other end.
    pub towards: Role,
    /// The device, named after where it leads.
    pub device: String,
    /// Its address, in a /24 of 198.18.0.0/15.
    pub ipv4: Ipv4Addr,
    /// Its address, in a /64 of `2001:2::/48`.
    pub ipv6: Ipv6Addr,
    /// Its hardware address.
    pub mac: String,
}

impl End {
    /// The end in `role` of the link to `towards`. Both numbers make the link's, so `198.18.12.2` and
    /// `2001:2:0:12::2` are machine 2 on the link from 1 to 2.
    pub fn new(role: Role, towards: Role) -> Self {
        let (own, other) = (role.number(), towards.number());
        let (low, high) = (own.min(other), own.max(other));
        Self {
            role,
            towards,
            device: format!("{towards}0"),
            ipv4: Ipv4Addr::new(198, 18, low * 10 + high, own),
            ipv6: Ipv6Addr::new(0x2001, 2, 0, u16::from(low * 16 + high), 0, 0, 0, u16::from(own)),
            mac: format!("02:00:00:00:{low}{high}:0{own}"),
        }
    }

    /// The other end.
    pub fn peer(&self) -> Self {
        Self::new(self.towards, self.role)
    }
}

/// What `ip -batch` is told inside the namespace of `role`.
///
/// Neighbours are fixed and nothing is asked of the network: no ARP, no duplicate address detection, no
/// link-local address, no router solicitation. What the devices count is the test's alone, but for the few
/// reports of multicast groups (RFC 3810) when they come up.
pub fn configuration(role: Role) -> String {
    let mut batch = String::new();
    for end in role.peers().map(|towards| End::new(role, towards)) {
        let (End { device, ipv4, ipv6, .. }, peer) = (&end, end.peer());
        // Writing to a String cannot fail.
        let _ = write!(
            batch,
            "link set dev {device} addrgenmode none multicast off\n\
             address add {ipv4}/24 dev {device}\n\
             address add {ipv6}/64 dev {device} nodad\n\
             link set dev {device} up\n\
             neighbour replace {} lladdr {} dev {device} nud permanent\n\
             neighbour replace {} lladdr {} dev {device} nud permanent\n",
            peer.ipv4, peer.mac, peer.ipv6, peer.mac
        );
    }
    if role == Role::Tester {
        let _ =
            write!(batch, "route add local {SOURCES_IPV4} dev lo\nroute add local {SOURCES_IPV6} dev lo\n");
    } else {
        let tester = End::new(Role::Tester, role);
        let _ = write!(
            batch,
            "route add {SOURCES_IPV4} via {}\nroute add {SOURCES_IPV6} via {}\n",
            tester.ipv4, tester.ipv6
        );
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_both_ends_of_a_link_share_networks_and_differ() {
        for (a, b) in LINKS {
            let (near, far) = (End::new(a, b), End::new(b, a));
            assert_eq!(near.peer(), far);
            assert_eq!(near.ipv4.octets()[..3], far.ipv4.octets()[..3]);
            assert_eq!(near.ipv6.segments()[..4], far.ipv6.segments()[..4]);
            assert!(near.ipv4 != far.ipv4 && near.ipv6 != far.ipv6 && near.mac != far.mac);
        }
        let end = End::new(Role::Dut, Role::Tester);
        assert_eq!((end.device.as_str(), end.ipv4.to_string().as_str()), ("tester0", "198.18.12.2"));
        assert_eq!(end.ipv6.to_string(), "2001:2:0:12::2");
    }

    #[test]
    fn lb_only_the_tester_may_use_the_client_sources() {
        assert!(configuration(Role::Tester).contains("route add local 198.19.0.0/16 dev lo"));
        assert!(configuration(Role::Auth).contains("route add 198.19.0.0/16 via 198.18.13.1"));
    }
}
