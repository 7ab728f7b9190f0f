//! Losses on the way: the Measurer in a network namespace of its own, the server at the other end of a veth
//! pair.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::responder::{Query, Responder, Stage};
use super::running::alone;
use super::tried::{Measurer, TrialRun, options};

/// A namespace for the Measurer, joined with this one; both ends go when it is dropped.
struct Wire {
    name: String,
    /// The server's addresses, IPv4 and IPv6.
    server: [IpAddr; 2],
    /// The Measurer's.
    measurer: [IpAddr; 2],
}

/// The subnet of a server that is not on the wire itself.
const BEHIND: u16 = 2;

/// An address for benchmarks (RFC 2544, RFC 5180) that no other process has: IPv4, the host below a /30 of
/// its own.
fn v4(host: u32) -> IpAddr {
    let network = (std::process::id() & 0x7fff) << 2;
    Ipv4Addr::from(0xc612_0000 + network + host).into()
}

/// The same with IPv6: a subnet and the host in it, below a /64 of its own.
fn v6(subnet: u16, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 2, 0, std::process::id() as u16, subnet, 0, 0, host).into()
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn ip(words: &str) {
    let output = run("ip", &words.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Wire {
    /// `None` where namespaces cannot be made.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ls{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            testing::skip("root", "network namespaces need root and the program ip");
            return None;
        }
        let wire = Self { name, server: [v4(1), v6(1, 1)], measurer: [v4(2), v6(1, 2)] };
        let Self { name, server, measurer } = &wire;
        ip(&format!("link add {name} type veth peer name to-server netns {name}"));
        for (index, length) in [(0, 30), (1, 80)] {
            let dad = if index == 1 { " nodad" } else { "" };
            ip(&format!("addr add {}/{length} dev {name}{dad}", server[index]));
            ip(&format!("-n {name} addr add {}/{length} dev to-server{dad}", measurer[index]));
        }
        ip(&format!("link set {name} up"));
        ip(&format!("-n {name} link set to-server up"));
        ip(&format!("-n {name} link set lo up"));
        Some(wire)
    }

    /// Runs a program at the Measurer's end.
    fn exec(&self, arguments: &[&str]) -> Output {
        run("ip", &[&["netns", "exec", &self.name], arguments].concat())
    }

    /// Runs it and expects it to succeed.
    fn does(&self, words: &str) {
        let output = self.exec(&words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn trial(&self, server: &Responder, rate: &str, more: &[&str]) -> TrialRun {
        TrialRun::read(&self.attempt(server, rate, more))
    }

    fn attempt(&self, server: &Responder, rate: &str, more: &[&str]) -> Output {
        self.command(server, rate, more).output().unwrap()
    }

    /// A trial of a second.
    fn command(&self, server: &Responder, rate: &str, more: &[&str]) -> Command {
        let address = server.address.to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_sextant")]);
        command.args(options(&address, rate, "1")).args(more);
        command
    }

    /// Packets that arrived at the server's end.
    fn arrived(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/rx_packets", self.name);
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Both ends of the pair go with the one in the namespace, but not before the namespace is taken down.
        let behind = format!("{}/128", v6(BEHIND, 1));
        let _ = Command::new("ip").args(["-6", "route", "del", "prohibit", &behind]).output();
        let _ = Command::new("ip").args(["link", "del", &self.name]).output();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A server at the end of the wire that answers, and does something before it answers query 500.
fn server(family: usize, wire: &Wire, mut halfway: impl FnMut(&str) + Send + 'static) -> Responder {
    let name = wire.name.clone();
    let script = move |stage: &mut Stage, query: &Query| {
        if query.number == 500 {
            halfway(&name);
        }
        stage.send(&query.answer(), query.from);
    };
    Responder::start(SocketAddr::new(wire.server[family], 0), script)
}

#[test]
fn what_cannot_be_sent_is_the_testers_error() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    let address = wire.server[0];
    let server = server(0, &wire, move |name| {
        ip(&format!("-n {name} route add unreachable {address}/32"));
    });
    let tried = wire.trial(&server, "1000", &[]);
    let errors = 1000 - server.received();
    assert!(errors > 300, "{}", tried.trial);
    tried.expect_losses(&[("own_send_error", errors)]);
    tried.expect_void(&format!("could not send {errors} queries (send errors): "));
}

#[test]
fn what_the_own_device_drops_voids_the_trial() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    // A veth drops what its peer would not take.
    let server = server(0, &wire, |name| ip(&format!("link set {name} mtu 68")));
    let tried = wire.trial(&server, "1000", &["--edns", "1232"]);
    let dropped = 1000 - server.received();
    assert!(dropped > 300, "{}", tried.trial);
    tried.expect_losses(&[("own_device_drop", dropped)]);
    tried.expect_void("the Tester's own device dropped");
    let seen = &tried.trial["observation"];
    assert_eq!(seen["device"], "to-server");
    // Now and then a host says something of its own, as IPv6 has it.
    let counted = seen["device_tx_drops"].as_u64().unwrap();
    assert!((dropped..dropped + 20).contains(&counted), "{counted} of {dropped}");
    assert_eq!(seen["device_counters"]["link.tx_dropped"], counted);
}

#[test]
fn what_the_queue_before_the_device_drops_voids_the_trial() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    let server = server(1, &wire, |_| ());
    let shaped = "tc qdisc add dev to-server root tbf rate 400kbit burst 1600 limit 3000";
    if !wire.exec(&shaped.split(' ').collect::<Vec<_>>()).status.success() {
        testing::skip("sch_tbf", "the kernel has no token bucket");
        return;
    }
    let tried = wire.trial(&server, "1000", &[]);
    let dropped = 1000 - server.received();
    assert!(dropped > 100, "{}", tried.trial);
    tried.expect_losses(&[("own_device_drop", dropped)]);
    tried.expect_void(&format!("own device dropped {dropped} packets"));
}

#[test]
fn a_refusal_on_the_way_ends_no_trial_and_is_counted() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    let behind = v6(BEHIND, 1);
    ip(&format!("addr add {behind}/128 dev {} nodad", wire.name));
    wire.does(&format!("ip -6 route add {behind}/128 via {}", wire.server[1]));
    let name = wire.name.clone();
    let server = Responder::start(SocketAddr::new(behind, 0), move |stage, query| {
        stage.send(&query.answer(), query.from);
        if query.number == 500 {
            // A router's refusal by policy is EACCES at the sockets.
            ip(&format!("addr del {behind}/128 dev {name}"));
            ip(&format!("-6 route add prohibit {behind}/128"));
        }
    });
    let tried = wire.trial(&server, "1000", &[]);
    assert!((501..600).contains(&tried.number("valid")), "{}", tried.trial);
    tried.expect_losses(&[("server_silent", 1000 - tried.number("valid"))]);
    assert!(tried.number("icmp_errors") > 0, "{}", tried.trial);
    tried.expect_fail();
}

#[test]
fn segments_are_packets_on_the_wire_or_refused() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    let server = server(1, &wire, |_| ());
    let refused = wire.attempt(&server, "1000", &["--io", "gso"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{message}");
    assert!(message.contains("ethtool -K to-server tx-udp-segmentation off"), "{message}");
    let marked = wire.trial(&server, "1000", &["--io", "gso", "--allow-unsegmented"]);
    assert_eq!(marked.trial["io"], "gso (unsegmented)");

    wire.does("ethtool -K to-server tx-udp-segmentation off");
    let before = wire.arrived();
    let tried = wire.trial(&server, "20000", &["--io", "gso"]);
    assert_eq!((&tried.trial["io"], tried.number("sent")), (&"gso".into(), 20_000), "{}", tried.trial);
    let packets = wire.arrived() - before;
    assert!((20_001..20_020).contains(&packets), "{packets} packets; some are not of the trial");
}

#[test]
fn rings_that_overflow_void_the_trial() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    // More answers than a ring holds are kept until the Measurer is stopped.
    const HELD: u32 = 14_000;
    let measurer = Measurer::default();
    let stopped = measurer.clone();
    let mut held = Vec::new();
    let server = Responder::start(SocketAddr::new(wire.server[0], 0), move |stage, query| {
        if query.number >= HELD {
            return stage.send(&query.answer(), query.from);
        }
        held.push((query.answer(), query.from));
        if query.number == HELD - 1 {
            stopped.while_stopped(|| held.drain(..).for_each(|(answer, to)| stage.send(&answer, to)));
        }
    });
    let tried =
        measurer.run(wire.command(&server, "14000", &["--io", "xdp", "--ports", "1", "--timeout", "4"]));
    let dropped = tried.lost_at("own_socket_drop");
    assert!(dropped > 1000, "{}", tried.trial);
    tried.expect_losses(&[("own_socket_drop", u64::from(HELD) - tried.number("valid"))]);
    tried.expect_void(&format!("dropped {dropped} answers"));
}

#[test]
fn sources_may_be_addresses_that_no_device_has() {
    let _alone = alone();
    let Some(wire) = Wire::new() else { return };
    let from: Arc<AtomicU32> = Arc::default();
    let count = Arc::clone(&from);
    let prefix = format!("{}/80", v6(3, 0));
    let of_prefix = |address: IpAddr| matches!((address, v6(3, 0)), (IpAddr::V6(a), IpAddr::V6(b)) if a.segments()[..5] == b.segments()[..5]);
    let server = Responder::start(SocketAddr::new(wire.server[1], 0), move |stage, query| {
        let counts = query.number < 1000 && of_prefix(query.from.ip());
        count.fetch_add(u32::from(counts), Ordering::Relaxed);
        stage.send(&query.answer(), query.from);
    });
    let sources = ["--source", &prefix, "--source-ports", "5300-5309"];
    let refused = wire.attempt(&server, "1000", &sources);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains(&format!("ip -6 route add local {prefix} dev lo")), "{message}");
    wire.does(&format!("ip -6 route add local {prefix} dev lo"));
    ip(&format!("-6 route add {prefix} via {}", wire.measurer[1]));
    let tried = wire.trial(&server, "1000", &sources);
    assert_eq!((tried.number("valid"), from.load(Ordering::Relaxed)), (1000, 1000), "{}", tried.trial);
}
