//! Real servers upstream: validating resolvers before the signed zone of the AuthDNS, and NSD.

#[path = "../../crates/tester/authdns/tests/authority/resolvers/config.rs"]
#[expect(dead_code, reason = "the proxy is for the tests of the AuthDNS")]
mod config;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use authdns::{Authority, AuthorityConfig, Signing, SigningKey, Zone, ZoneConfig};
use config::{Resolver, Setup};
use dns64::wire::{Header, rcode};

use crate::support::PATIENCE;
use crate::support::client::{ask, ask_dnssec};
use crate::support::server::{Server, config_text};

const DAY_S: u32 = 86_400;
/// Names of the zone: the last octet says whether there is a native address.
const NATIVE: &str = "010-000-000-007.dns64perf.test AAAA";
const IPV4_ONLY: &str = "010-000-000-008.dns64perf.test AAAA";
const ABSENT: &str = "nothing.dns64perf.test AAAA";

fn signed_zone(seed: &str) -> ZoneConfig {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    let inception_s = now_s - DAY_S / 2;
    let signing =
        Signing { key: SigningKey::from_seed(seed), inception_s, expiration_s: inception_s + DAY_S };
    ZoneConfig {
        aaaa_share_percent: 50,
        names: Some("10.0.0.0/8".parse().unwrap()),
        signing: Some(signing),
        ..ZoneConfig::default()
    }
}

/// Another server; it is killed when the test ends.
struct Peer {
    child: Child,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Peer {
    /// Starts a program in a directory that `prepare` fills for a port, and waits until it answers this
    /// question. `None`, and a word why, where it is not installed.
    fn start(program: &str, question: &str, prepare: impl FnOnce(&Path, u16) -> Vec<String>) -> Option<Self> {
        if !Path::new(program).exists() {
            testing::skip(&format!("program {program}"), format!("{program} is not installed"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let arguments = prepare(directory.path(), address.port());
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = sys::process::die_with_parent(&mut command).spawn().unwrap();
        let peer = Self { child, address, directory };
        peer.await_answers(question);
        Some(peer)
    }

    fn await_answers(&self, question: &str) {
        let start = Instant::now();
        let host = [127, 0, 0, 1].into();
        while ask(question).within(Duration::from_millis(300), host, self.address).is_none() {
            assert!(start.elapsed() < PATIENCE, "no answer: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// A dns64d before it.
    fn behind(&self, more: &str) -> Server {
        Server::start(&config_text(&[self.address], more))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A resolver that validates the zone `served` with the key of the zone `trusted`.
fn validating(resolver: Resolver, served: &str, trusted: &str) -> Option<(Authority, Peer)> {
    let server =
        AuthorityConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], ..AuthorityConfig::default() };
    let zone = Arc::new(Zone::new(signed_zone(served)).unwrap());
    let authority = Authority::start(zone, &server).unwrap();
    let port = authority.local_addrs()[0].port();
    let anchors = Zone::new(signed_zone(trusted)).unwrap().trust_anchors();
    let setup = Setup { anchors, ..resolver.setup() };
    let peer = Peer::start(resolver.program(), IPV4_ONLY, |directory, own_port| {
        setup.write(directory, own_port, port).unwrap();
        resolver.arguments(directory.to_str().unwrap())
    })?;
    Some((authority, peer))
}

#[test]
fn point_14_validated_answers_are_authentic_and_synthesized_ones_are_not() {
    for resolver in Resolver::ALL {
        let Some((_authority, peer)) = validating(resolver, "a test", "a test") else { continue };
        let server = peer.behind("upstream.trust_ad = true");
        let told = |words: &str, flags: u16| {
            let answer = ask_dnssec(words).flag(flags).over_udp(server.address());
            (answer.rcode(), answer.has(Header::AD), answer.records())
        };
        let has = |records: &[String], end: &str| records.iter().any(|record| record.ends_with(end));

        let (code, authentic, records) = told(NATIVE, 0);
        assert!(code == 0 && authentic, "{resolver:?}: {records:?}\n{}", peer.log());
        assert!(has(&records, " AAAA 2001:2:0:aaaa::a00:7") && has(&records, " RRSIG AAAA"), "{records:?}");

        let (code, authentic, records) = told(IPV4_ONLY, 0);
        assert!(code == 0 && !authentic, "{resolver:?}: {records:?}");
        assert!(has(&records, " AAAA 2001:db8:64::a00:8") && !has(&records, " RRSIG A"), "{records:?}");

        // The client validates: it sees the denial and its proof.
        let (code, _, records) = told(IPV4_ONLY, Header::CD);
        assert!(code == 0 && records.iter().all(|record| record.starts_with("ns ")), "{records:?}");
        assert!(has(&records, " RRSIG SOA"), "{resolver:?}: {records:?}");

        let (code, authentic, _) = told(ABSENT, 0);
        assert_eq!((code, authentic), (rcode::NXDOMAIN, true), "{resolver:?}");
    }
}

#[test]
fn point_14_nothing_is_synthesized_for_a_zone_that_is_bogus() {
    for resolver in Resolver::ALL {
        let Some((_authority, peer)) = validating(resolver, "a test", "another key") else { continue };
        let server = peer.behind("upstream.timeout_ms = 2000");
        for asked in [ask(IPV4_ONLY), ask_dnssec(IPV4_ONLY), ask(NATIVE), ask_dnssec(ABSENT)] {
            let answer = asked.over_udp(server.address());
            assert_eq!((answer.rcode(), answer.records()), (rcode::SERVFAIL, vec![]), "{resolver:?}");
        }
    }
}

const ZONE: &str = "\
$ORIGIN example.com.
$TTL 300
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 192.0.2.53
four A 192.0.2.1
four A 192.0.2.2
both A 192.0.2.3
both AAAA 2001:db8::3
alias CNAME middle
middle CNAME four
tree DNAME sub
www.sub A 192.0.2.4
txt TXT unchanged
mapped AAAA ::ffff:192.0.2.9
mapped A 192.0.2.9
";

/// Starts NSD with the zone.
fn nsd() -> Option<Peer> {
    Peer::start("/usr/sbin/nsd", "four.example.com A", |directory, port| {
        std::fs::write(directory.join("zone"), ZONE).unwrap();
        let place = directory.display();
        let text = format!(
            "server:\n ip-address: 127.0.0.1@{port}\n username: \"\"\n chroot: \"\"\n server-count: 1\n \
             zonesdir: \"{place}\"\n database: \"\"\n pidfile: \"{place}/pid\"\n xfrdfile: \"{place}/xfrd\"\n \
             zonelistfile: \"{place}/zones\"\n xfrdir: \"{place}\"\n\
             remote-control:\n control-enable: no\n\
             zone:\n name: example.com\n zonefile: zone\n"
        );
        std::fs::write(directory.join("nsd.conf"), text).unwrap();
        ["-d".to_owned(), "-c".to_owned(), format!("{place}/nsd.conf")].into()
    })
}

#[test]
fn the_answers_of_nsd_are_synthesized_from() {
    let Some(peer) = nsd() else { return };
    let server = peer.behind("");
    let answers = |words: &str| {
        let answer = server.ask(words);
        assert_eq!(answer.rcode(), 0, "{words}\n{}", peer.log());
        let mut records = answer.records();
        records.retain(|record| record.starts_with("an "));
        records.sort_unstable();
        records
    };
    let both = |owner: &str| ["201", "202"].map(|end| format!("an {owner} 60 AAAA 2001:db8:64::c000:{end}"));
    assert_eq!(answers("four.example.com AAAA"), both("four.example.com"));
    assert_eq!(answers("both.example.com AAAA"), ["an both.example.com 300 AAAA 2001:db8::3"]);
    let chain = answers("alias.example.com AAAA");
    assert_eq!(chain[0], "an alias.example.com 300 CNAME middle.example.com");
    assert_eq!(chain[1..3], both("four.example.com"));
    assert_eq!(chain[3], "an middle.example.com 300 CNAME four.example.com");
    let tree = answers("www.tree.example.com AAAA");
    assert!(tree.contains(&"an tree.example.com 300 DNAME sub.example.com".to_owned()), "{tree:?}");
    assert!(tree.contains(&"an www.sub.example.com 60 AAAA 2001:db8:64::c000:204".to_owned()), "{tree:?}");
    assert_eq!(answers("mapped.example.com AAAA"), ["an mapped.example.com 300 AAAA 2001:db8:64::c000:209"]);
    assert_eq!(answers("txt.example.com TXT"), ["an txt.example.com 300 TXT \u{9}unchanged"]);
    assert_eq!(server.ask("none.example.com AAAA").rcode(), rcode::NXDOMAIN);
}
