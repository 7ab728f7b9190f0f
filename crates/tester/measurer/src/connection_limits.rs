//! Whether so many connections can be had at all: open files, and ports.

use std::fs;
use std::io;
use std::net::SocketAddr;

use sys::process;

use crate::plan::Plan;
use crate::transport::Sources;
use crate::transport::stream::StreamConfig;

/// Open files besides the connections: pollers, an AuthDNS, the record.
pub(crate) const FILES_BESIDE: u64 = 128;
/// How long a port of a closed connection is not used again (TIME_WAIT), in seconds; and where the kernel
/// may use it again earlier (`net.ipv4.tcp_tw_reuse`).
const TIME_WAIT_S: f64 = 60.0;
const TIME_WAIT_REUSE_S: f64 = 1.0;

/// The most connections at a time: those of all clients, and those that wait for their last answers.
pub(crate) fn connections_max(plan: &Plan, streams: &StreamConfig, lanes: usize) -> u64 {
    let clients = plan.udp.sockets as u64;
    let timeout_s = plan.timeout_ns as f64 / 1e9;
    let outstanding = || (plan.model.outstanding_max() * lanes as u64) as f64;
    let ending = opened_within(timeout_s, plan, streams).unwrap_or_else(outstanding);
    clients.saturating_add((ending.ceil() as u64).max(clients.min(1024)))
}

/// Connections that are opened in so many seconds, at most; `None` where nobody knows.
fn opened_within(seconds: f64, plan: &Plan, streams: &StreamConfig) -> Option<f64> {
    let ends = streams.queries_each.mean().is_some();
    (!ends || !plan.model.is_closed())
        .then(|| streams.queries_each.opened_at_most(plan.rate_qps as f64 * seconds))
}

/// Refuses what needs more open files or ports than there are.
///
/// # Errors
/// How many are needed, how many there are, and what to do.
pub(crate) fn check(plan: &Plan, streams: &StreamConfig, lanes: usize) -> io::Result<()> {
    let refuse = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    let clients = plan.udp.sockets;
    let most = connections_max(plan, streams, lanes);
    let (files, needed) = (process::raise_file_limit(), most + FILES_BESIDE);
    if needed > files {
        return refuse(format!(
            "{clients} connections need {needed} open files with those that are being closed, {files} are allowed: ask \
             for fewer, or raise the limit with 'ulimit -n {needed}'"
        ));
    }
    let needed = ports_needed(plan, streams, most);
    let (first, last) = port_range();
    let (ports, addresses) = free_ports(&plan.udp.sources);
    if needed > ports.saturating_mul(addresses) {
        let sources = needed.div_ceil(ports);
        return refuse(format!(
            "the connections need {needed} ports with those that the kernel keeps after their end, and \
             net.ipv4.ip_local_port_range {first}-{last} has {ports} for each of {addresses} source addresses: use --source \
             with a prefix of at least {sources} addresses, or fewer new connections"
        ));
    }
    Ok(())
}

/// Ports that are in use or kept after the end of a connection, at most.
fn ports_needed(plan: &Plan, streams: &StreamConfig, most: u64) -> u64 {
    if !streams.protocol.keeps_ports() {
        return most;
    }
    let kept_s = kept_s(plan.udp.server, plan.duration_ns);
    let opened = opened_within(kept_s, plan, streams).unwrap_or(0.0);
    (plan.udp.sockets as u64).saturating_add(opened.ceil() as u64)
}

/// Ports that are kept after the end of a connection, at most, where so many are opened in each second.
pub(crate) fn ports_kept(server: SocketAddr, opened_each_second: f64, duration_ns: u64) -> u64 {
    (opened_each_second * kept_s(server, duration_ns)).ceil() as u64
}

/// How long the kernel keeps the port of a closed connection while connections are opened for so long, in
/// seconds.
fn kept_s(server: SocketAddr, duration_ns: u64) -> f64 {
    let kept_s = match sysctl("tcp_tw_reuse").as_deref() {
        Some("1") => TIME_WAIT_REUSE_S,
        Some("2") if server.ip().is_loopback() => TIME_WAIT_REUSE_S,
        _ => TIME_WAIT_S,
    };
    kept_s.min(duration_ns as f64 / 1e9)
}

/// The ports that the kernel takes for connections.
pub(crate) fn port_range() -> (u16, u16) {
    let range = sysctl("ip_local_port_range").unwrap_or_default();
    let mut ports = range.split_ascii_whitespace().map(str::parse);
    match (ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => (first, last),
        // The kernel's default.
        _ => (32_768, 60_999),
    }
}

/// The ports that the kernel takes for the sockets of an address, and the number of addresses.
pub(crate) fn free_ports(sources: &Sources) -> (u64, u64) {
    let (first, last) = port_range();
    (u64::from(last - first) + 1, sources.addresses.map_or(1, |prefix| prefix.len()))
}

/// A setting of the network namespace.
fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_owned())
}
