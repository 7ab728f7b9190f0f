//! The links and addresses of a lab: the same in every lab, so that documents can show complete commands.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;
use serde::Serialize;
use sys::link::Network;

/// Sources that clients may have beside the Tester's own addresses: the Tester may bind any of them, and DUT
/// and AuthDNS answer them through the Tester. From the range for benchmarks (RFC 2544 C.2.2, 198.18.0.0/15).
pub const SOURCES_IPV4: Network = Network { address: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 0)), bits: 16 };
/// Likewise for IPv6, from RFC 5180 section 8, `2001:2::/48`.
pub const SOURCES_IPV6: Network =
    Network { address: IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0xc000, 0, 0, 0, 0)), bits: 52 };

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
    /// The same, in octets.
    #[serde(skip)]
    pub hardware: [u8; 6],
}

impl End {
    /// The end in `role` of the link to `towards`. Both numbers make the link's, so `198.18.12.2` and
    /// `2001:2:0:12::2` are machine 2 on the link from 1 to 2.
    pub fn new(role: Role, towards: Role) -> Self {
        let (own, other) = (role.number(), towards.number());
        let (low, high) = (own.min(other), own.max(other));
        let hardware = [2, 0, 0, 0, low * 16 + high, own];
        Self {
            role,
            towards,
            device: format!("{towards}0"),
            ipv4: Ipv4Addr::new(198, 18, low * 10 + high, own),
            ipv6: Ipv6Addr::new(0x2001, 2, 0, u16::from(low * 16 + high), 0, 0, 0, u16::from(own)),
            mac: hardware.map(|octet| format!("{octet:02x}")).join(":"),
            hardware,
        }
    }

    /// The other end.
    pub fn peer(&self) -> Self {
        Self::new(self.towards, self.role)
    }
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
        assert_eq!(end.mac, "02:00:00:00:12:02");
    }
}
