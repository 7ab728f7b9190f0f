//! Where Tester, DUT and AuthDNS are: on the loopback device, or in a lab of network namespaces.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::ValueEnum;
use sys::bpf::Attached;

use authdns::Io;
use lab::network::{Lab, LabSpec, Role};

/// `--path`: which way the queries take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PathChoice {
    /// Through a lab where one can be made, else over the loopback device.
    #[default]
    Auto,
    /// Through a lab of three network namespaces joined by veth pairs, made for this run; needs root.
    Lab,
    /// Over the loopback device.
    Loopback,
}

/// Where the machines of the test are.
#[derive(Debug, PartialEq, Eq)]
pub enum Site {
    /// All on the loopback device of this namespace.
    Loopback,
    /// Each in a namespace of a lab, which is removed with this value, or by the next lab if this process is
    /// killed.
    Lab(Lab),
}

/// The port of the AuthDNS in a lab, where nobody else uses it.
const AUTH_PORT: u16 = 53;
/// The port of the DUT in a lab: it runs without privileges.
pub const DUT_PORT: u16 = 5300;

impl Site {
    /// Makes the site. Where a lab was not insisted on and cannot be, it is the loopback, and the reason.
    ///
    /// # Errors
    /// A lab was insisted on, and why it cannot be.
    pub fn make(choice: PathChoice) -> io::Result<(Self, Option<String>)> {
        if choice == PathChoice::Loopback {
            return Ok((Self::Loopback, None));
        }
        let name = format!("sextant-{}", std::process::id());
        match Lab::up(&LabSpec { name, ..LabSpec::default() }) {
            Ok(lab) => Ok((Self::Lab(lab), None)),
            Err(error) if choice == PathChoice::Auto => Ok((Self::Loopback, Some(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// The namespace of a machine; none on the loopback.
    pub fn namespace(&self, role: Role) -> Option<String> {
        match self {
            Self::Loopback => None,
            Self::Lab(lab) => Some(lab.namespace(role)),
        }
    }

    /// Does something where a machine is.
    ///
    /// # Errors
    /// Its namespace cannot be entered.
    pub fn at<T: Send>(&self, role: Role, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        sys::netns::inside(self.namespace(role).as_deref(), work)
    }

    /// The device by which a machine is joined to another; none on the loopback.
    pub fn device(&self, role: Role, towards: Role) -> Option<String> {
        match self {
            Self::Loopback => None,
            Self::Lab(lab) => Some(lab.end(role, towards).device),
        }
    }

    /// The devices of the server under test; none on the loopback.
    pub fn dut_devices(&self) -> Vec<String> {
        [Role::Tester, Role::Auth].into_iter().filter_map(|towards| self.device(Role::Dut, towards)).collect()
    }

    /// Where the AuthDNS answers the Tester, over IPv6; port 0 is any free one.
    pub(crate) fn auth_for_tester(&self) -> SocketAddr {
        match self {
            Self::Loopback => (Ipv6Addr::LOCALHOST, 0).into(),
            Self::Lab(lab) => (lab.end(Role::Auth, Role::Tester).ipv6, AUTH_PORT).into(),
        }
    }

    /// Where the AuthDNS answers the DUT, over IPv4; likewise.
    pub fn auth_for_dut(&self) -> SocketAddr {
        match self {
            Self::Loopback => (Ipv4Addr::LOCALHOST, 0).into(),
            Self::Lab(lab) => (lab.end(Role::Auth, Role::Dut).ipv4, AUTH_PORT).into(),
        }
    }

    /// The address of the DUT for the Tester.
    pub fn dut(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv6Addr::LOCALHOST.into(),
            Self::Lab(lab) => lab.end(Role::Dut, Role::Tester).ipv6.into(),
        }
    }

    /// A veth takes what an XDP program at its other end sends only where it has one itself: holds one at
    /// `role`, if the AuthDNS answers by such a program and nothing else is there.
    ///
    /// # Errors
    /// XDP is not available, or the device has a program.
    pub fn hold_pass(&self, role: Role, io: Io) -> io::Result<Option<Attached>> {
        match self {
            Self::Lab(lab) if io != Io::Udp => lab.attach_pass(role, Role::Auth).map(Some),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "the loopback device",
            Self::Lab(_) => "a lab of network namespaces",
        })
    }
}
