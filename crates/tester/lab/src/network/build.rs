//! Makes the namespaces of a lab, their devices, addresses and routes.
//!
//! Neighbours are fixed and nothing is asked of the network: no ARP, no duplicate address detection, no
//! link-local address, no router solicitation. What the devices count is the test's alone, but for the few
//! reports of multicast groups (RFC 3810) when they come up.

use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use sys::link::{Device, VethEnd, add_route, add_veth, device_to};
use sys::netns;

use super::mark::{self, LOOPBACK, Mark, Owner, namespace};
use super::plan::{End, LINKS, Role, SOURCES_IPV4, SOURCES_IPV6};
use super::{LabSpec, threads};

/// How long the kernel may take until a link is ready.
const LINK_PATIENCE: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(5);

/// Makes everything, in the name of this process.
pub(super) fn all(spec: &LabSpec) -> io::Result<()> {
    let mark = Mark { lab: spec.name.clone(), owner: Some(Owner::this_process()?) };
    for role in Role::ALL {
        mark::make(&namespace(&spec.name, role), &mark)?;
    }
    for (role, towards) in LINKS {
        join(spec, &End::new(role, towards))?;
    }
    for role in Role::ALL {
        inside(spec, role, || configure(role, spec.segmentation))?;
    }
    for role in Role::ALL {
        inside(spec, role, || wait_for_links(role))?;
        inside(spec, role, || lead_sources(role))?;
    }
    // With GRO a veth has NAPI, which AF_XDP, XDP_REDIRECT and threads need. Only where both ends are up
    // already does the other end learn that it may send frames of XDP programs.
    for role in Role::ALL {
        inside(spec, role, || switch_on_gro(role))?;
    }
    for &(role, cpu) in &spec.napi_cpus {
        threads::pin(spec, role, cpu)?;
    }
    Ok(())
}

/// Makes a link, both ends at once and each in its namespace.
fn join(spec: &LabSpec, near: &End) -> io::Result<()> {
    let far = near.peer();
    let [near_inside, far_inside] = [near, &far].map(|end| namespace(&spec.name, end.role));
    let (near, far) = (veth(near, &near_inside, spec.queues), veth(&far, &far_inside, spec.queues));
    add_veth(&near, &far)
}

fn veth<'n>(end: &'n End, namespace: &'n str, queues: u16) -> VethEnd<'n> {
    VethEnd { name: &end.device, mac: end.hardware, namespace, queues }
}

/// Does something in the namespace of a role; an error says in which.
fn inside(spec: &LabSpec, role: Role, work: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    let namespace = namespace(&spec.name, role);
    netns::within(&namespace, work)?
        .map_err(|error| io::Error::new(error.kind(), format!("network namespace {namespace}: {error}")))
}

/// Offloads, addresses and neighbours of a role.
fn configure(role: Role, segmentation: bool) -> io::Result<()> {
    for end in role.peers().map(|towards| End::new(role, towards)) {
        let (device, peer) = (Device::named(&end.device)?, end.peer());
        device.switch_offloads(cuts_messages, segmentation)?;
        device.silence()?;
        device.add_address(end.ipv4.into(), 24)?;
        device.add_address(end.ipv6.into(), 64)?;
        device.set_up()?;
        for address in [peer.ipv4.into(), peer.ipv6.into()] {
            device.fix_neighbour(address, peer.hardware)?;
        }
    }
    Ok(())
}

/// Waits until the devices of a role send, and receive what is for their addresses. The kernel looks after
/// the first end of a link a moment after the second one has come up, and until then drops what the first end
/// should send. It also takes a moment until the routing table has a new IPv6 address.
fn wait_for_links(role: Role) -> io::Result<()> {
    let deadline = Instant::now() + LINK_PATIENCE;
    for end in role.peers().map(|towards| End::new(role, towards)) {
        let device = Device::named(&end.device)?;
        while !device.is_running()? || !is_local(end.ipv6) {
            if Instant::now() > deadline {
                let text = format!("{} is not ready after {LINK_PATIENCE:?}", device.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            std::thread::sleep(LINK_POLL);
        }
    }
    Ok(())
}

/// Whether the routing table leads to this machine itself.
fn is_local(address: Ipv6Addr) -> bool {
    device_to((address, 0).into()).is_ok_and(|device| device.name == LOOPBACK)
}

/// Whether the offload with this name takes a message apart after the stack: UDP_SEGMENT, and TSO in its
/// forms.
fn cuts_messages(offload: &str) -> bool {
    offload == "tx-udp-segmentation" || offload.starts_with("tx-tcp") && offload.ends_with("-segmentation")
}

fn switch_on_gro(role: Role) -> io::Result<()> {
    for towards in role.peers() {
        let device = Device::named(&End::new(role, towards).device)?;
        device.switch_offloads(|offload| offload == "rx-gro", true)?;
    }
    Ok(())
}

/// Leads what is sent to the sources of clients to the Tester, who may use all of them.
fn lead_sources(role: Role) -> io::Result<()> {
    if role == Role::Tester { take_sources() } else { route_sources(role) }
}

fn take_sources() -> io::Result<()> {
    // IPv6 sockets take the addresses of a local route only then; IPv4 sockets do anyway.
    const SWITCH: &str = "/proc/sys/net/ipv6/ip_nonlocal_bind";
    fs::write(SWITCH, "1").map_err(|error| io::Error::new(error.kind(), format!("{SWITCH}: {error}")))?;
    let loopback = Device::named(LOOPBACK)?;
    loopback.take_network(SOURCES_IPV4)?;
    loopback.take_network(SOURCES_IPV6)
}

fn route_sources(role: Role) -> io::Result<()> {
    let tester = End::new(Role::Tester, role);
    add_route(SOURCES_IPV4, tester.ipv4.into())?;
    add_route(SOURCES_IPV6, tester.ipv6.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_segmentation_is_of_udp_and_tcp_alone() {
        for offload in ["tx-udp-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation"] {
            assert!(cuts_messages(offload), "{offload}");
        }
        for offload in
            ["tx-generic-segmentation", "tx-sctp-segmentation", "rx-gro", "tx-udp_tnl-segmentation"]
        {
            assert!(!cuts_messages(offload), "{offload}");
        }
    }
}
