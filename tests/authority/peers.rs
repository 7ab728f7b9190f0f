//! Real resolvers in front of the AuthDNS: they must take its answers, whether they forward or iterate.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns64::names;
use domain::base::iana::{Rcode, Rtype};
use sextant::authority::{Authority, AuthorityConfig, Zone, ZoneConfig};

use crate::zone::{query, rcode, records};

const PATIENCE: Duration = Duration::from_secs(30);
const SHARE_PERCENT: u8 = 50;

/// A resolver from its distribution's package.
struct Peer {
    program: &'static str,
    arguments: &'static [&'static str],
    /// `{DIR}`, `{PORT}` and `{AUTH}` stand for its directory, its port and the port of the AuthDNS on 127.0.0.1.
    config: String,
}

const UNBOUND_COMMON: &str = r#"
server:
    interface: 127.0.0.1@{PORT}
    do-daemonize: no
    use-syslog: no
    logfile: ""
    username: ""
    chroot: ""
    directory: "{DIR}"
    pidfile: "{DIR}/unbound.pid"
    do-not-query-localhost: no
    local-zone: "test." nodefault
    module-config: "iterator"
    qname-minimisation: yes
    qname-minimisation-strict: yes
    harden-referral-path: yes
    harden-below-nxdomain: yes
    use-caps-for-id: yes
remote-control:
    control-enable: no
"#;

const BIND_COMMON: &str = r#"
options {
    directory "{DIR}";
    pid-file "{DIR}/named.pid";
    session-keyfile "{DIR}/session.key";
    port {AUTH};
    listen-on port {PORT} { 127.0.0.1; };
    listen-on-v6 { none; };
    recursion yes;
    dnssec-validation no;
    qname-minimization strict;
};
controls { };
"#;

#[test]
fn unbound_forwards() {
    Peer::unbound("forward-zone:\n name: dns64perf.test\n forward-addr: 127.0.0.1@{AUTH}\n")
        .resolve_all_kinds();
}

#[test]
fn unbound_iterates_from_a_stub_zone() {
    Peer::unbound("stub-zone:\n name: dns64perf.test\n stub-addr: 127.0.0.1@{AUTH}\n").resolve_all_kinds();
}

#[test]
fn unbound_forwards_over_tcp() {
    Peer::unbound(
        "forward-zone:\n name: dns64perf.test\n forward-addr: 127.0.0.1@{AUTH}\n forward-tcp-upstream: yes\n",
    )
    .resolve_all_kinds();
}

#[test]
fn bind_forwards_only() {
    Peer::bind("zone dns64perf.test { type forward; forward only; forwarders { 127.0.0.1 port {AUTH}; }; };")
        .resolve_all_kinds();
}

#[test]
fn bind_iterates_from_a_static_stub_zone() {
    Peer::bind("zone dns64perf.test { type static-stub; server-addresses { 127.0.0.1; }; };")
        .resolve_all_kinds();
}

impl Peer {
    fn unbound(zone: &str) -> Self {
        Self {
            program: "/usr/sbin/unbound",
            arguments: &["-d", "-p", "-c"],
            config: [UNBOUND_COMMON, zone].concat(),
        }
    }

    fn bind(zone: &str) -> Self {
        Self {
            program: "/usr/sbin/named",
            arguments: &["-g", "-n", "1", "-c"],
            config: [BIND_COMMON, zone].concat(),
        }
    }

    /// Asks for every kind of name and type through the resolver.
    fn resolve_all_kinds(&self) {
        if !Path::new(self.program).exists() {
            println!("SKIPPED: {} is not installed", self.program);
            return;
        }
        let authority = start_authority();
        let running = self.start(authority.local_addrs()[0].port());
        running.await_answers();
        for n in 0..50 {
            running.check_host(n);
        }
        let negative = |name, qtype| {
            let answer = running.ask(name, qtype);
            assert_eq!(records(&answer)[0], [""; 0], "{name} {qtype}");
            assert!(records(&answer)[1][0].contains(" SOA ns.dns64perf.test. hostmaster."), "{name} {qtype}");
            rcode(&answer).0
        };
        assert_eq!(negative("nothing.dns64perf.test", Rtype::A), Rcode::NXDOMAIN);
        // BIND leaves the SOA out when QNAME minimisation met the NXDOMAIN at a shorter name.
        let deep = running.ask("deep.below.nowhere.dns64perf.test", Rtype::AAAA);
        assert_eq!(rcode(&deep).0, Rcode::NXDOMAIN);
        assert_eq!(negative("010-000-000-001.dns64perf.test", Rtype::MX), Rcode::NOERROR);
        assert_eq!(negative("010-000-000-001.dns64perf.test", Rtype::HTTPS), Rcode::NOERROR);
        let name_server = running.ask("dns64perf.test", Rtype::NS);
        assert!(records(&name_server)[0][0].ends_with(" NS ns.dns64perf.test."));
        assert!(records(&running.ask("dns64perf.test", Rtype::SOA))[0][0].contains(" SOA "));
        assert!(records(&running.ask("ns.dns64perf.test", Rtype::A))[0][0].ends_with(" A 127.0.0.1"));

        drop(running);
        let counters = authority.stop();
        assert!(counters.udp.queries_a + counters.tcp.queries_a >= 50, "{counters:?}");
        assert_eq!(counters.udp.malformed + counters.tcp.malformed, 0);
    }

    fn start(&self, authority_port: u16) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let config_path = directory.path().join("peer.conf");
        let config = self
            .config
            .replace("{DIR}", directory.path().to_str().unwrap())
            .replace("{PORT}", &address.port().to_string())
            .replace("{AUTH}", &authority_port.to_string());
        fs::write(&config_path, config).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(self.program);
        command.args(self.arguments).arg(&config_path).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = net::process::die_with_parent(&mut command).spawn().unwrap();
        Running { child, directory, address }
    }
}

fn start_authority() -> Authority {
    let config = ZoneConfig { aaaa_share_percent: SHARE_PERCENT, ..ZoneConfig::default() };
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server = AuthorityConfig { listen, ..AuthorityConfig::default() };
    Authority::start(Arc::new(Zone::new(config).unwrap()), &server).unwrap()
}

/// A resolver that runs; it is killed when the test ends.
struct Running {
    child: Child,
    directory: tempfile::TempDir,
    address: SocketAddr,
}

impl Running {
    fn ask_within(&self, name: &str, qtype: Rtype, timeout: Duration) -> Option<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(timeout)).unwrap();
        socket.connect(self.address).unwrap();
        socket.send(&query(name, qtype, Some((1232, false)))).ok()?;
        let mut answer = [0; 2048];
        let length = socket.recv(&mut answer).ok()?;
        Some(answer[..length].to_vec())
    }

    fn ask(&self, name: &str, qtype: Rtype) -> Vec<u8> {
        self.ask_within(name, qtype, PATIENCE)
            .unwrap_or_else(|| panic!("no answer for {name}\n{}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn await_answers(&self) {
        let start = Instant::now();
        while self.ask_within("ns.dns64perf.test", Rtype::A, Duration::from_millis(200)).is_none() {
            assert!(start.elapsed() < PATIENCE, "the resolver does not answer\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn check_host(&self, n: u8) {
        let ipv4 = [10, 77, 0, n].into();
        let name = format!("010-077-000-{n:03}.dns64perf.test");
        let a = self.ask(&name, Rtype::A);
        assert_eq!(rcode(&a).0, Rcode::NOERROR, "{name}\n{}", self.log());
        assert!(records(&a)[0][0].ends_with(&format!(" A {ipv4}")), "{name}");
        let aaaa = self.ask(&name, Rtype::AAAA);
        assert_eq!(rcode(&aaaa).0, Rcode::NOERROR, "{name}\n{}", self.log());
        if names::has_aaaa(ipv4, SHARE_PERCENT) {
            let ipv6 = ZoneConfig::default().aaaa_prefix.embed(ipv4);
            assert!(records(&aaaa)[0][0].ends_with(&format!(" AAAA {ipv6}")), "{name}");
        } else {
            assert!(records(&aaaa)[1][0].contains(" SOA "), "{name}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
