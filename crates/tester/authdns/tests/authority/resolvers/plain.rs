//! Without validation: every kind of name and type, over UDP, over TCP, with EDNS and without.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use authdns::{Authority, AuthorityConfig, Rules, Transport, Zone, ZoneConfig};
use dns64::names;
use dns64::wire::Message;
use domain::base::iana::{Rcode, Rtype};

use super::{Resolver, Running, Setup};
use crate::encrypted::{address, certificate, encrypted};
use crate::zone::{Offer, records};

const SHARE_PERCENT: u8 = 50;
const EDNS: Offer = Some((1232, false));

/// A zone with everything, of the names in 10.0.0.0/8.
pub fn full_config() -> ZoneConfig {
    ZoneConfig {
        aaaa_share_percent: SHARE_PERCENT,
        names: Some("10.0.0.0/8".parse().unwrap()),
        rules: Rules { short: true, wildcard: true, chains: true, types: true, reverse: true },
        ..ZoneConfig::default()
    }
}

pub fn start_authority(config: ZoneConfig) -> Authority {
    start_with(config, |_| ())
}

fn start_with(config: ZoneConfig, change: impl FnOnce(&mut AuthorityConfig)) -> Authority {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let mut server = AuthorityConfig { listen, ..AuthorityConfig::default() };
    change(&mut server);
    Authority::start(Arc::new(Zone::new(config).unwrap()), &server).unwrap()
}

#[test]
fn bind_forwards() {
    resolve_all_kinds(&Resolver::Bind.setup());
}

#[test]
fn bind_iterates_from_a_static_stub_zone() {
    resolve_all_kinds(&Setup { iterates: true, ..Resolver::Bind.setup() });
}

#[test]
fn bind_over_tcp() {
    resolve_all_kinds(&Setup { over: Transport::Tcp, ..Resolver::Bind.setup() });
}

#[test]
fn unbound_forwards() {
    resolve_all_kinds(&Resolver::Unbound.setup());
}

#[test]
fn unbound_iterates_from_a_stub_zone() {
    resolve_all_kinds(&Setup { iterates: true, ..Resolver::Unbound.setup() });
}

#[test]
fn unbound_over_tcp() {
    resolve_all_kinds(&Setup { over: Transport::Tcp, ..Resolver::Unbound.setup() });
}

#[test]
fn unbound_over_tls() {
    resolve_all_kinds_encrypted(Resolver::Unbound, Transport::Dot);
}

#[test]
fn knot_resolver_over_tls() {
    resolve_all_kinds_encrypted(Resolver::Knot, Transport::Dot);
}

#[test]
fn dnsdist_over_tls() {
    resolve_all_kinds_encrypted(Resolver::Dnsdist, Transport::Dot);
}

#[test]
fn dnsdist_over_https() {
    resolve_all_kinds_encrypted(Resolver::Dnsdist, Transport::Doh);
}

#[test]
fn powerdns_recursor_iterates() {
    resolve_all_kinds(&Resolver::Powerdns.setup());
}

#[test]
fn knot_resolver_forwards() {
    resolve_all_kinds(&Resolver::Knot.setup());
}

#[test]
fn knot_resolver_over_tcp() {
    resolve_all_kinds(&Setup { over: Transport::Tcp, ..Resolver::Knot.setup() });
}

/// Asks for every kind of name and type through the resolver.
fn resolve_all_kinds(setup: &Setup) {
    let authority = start_authority(full_config());
    let Some(running) = Running::start(setup, authority.local_addrs()[0].port()) else { return };
    check_all_kinds(&running);
    drop(running);

    let counters = authority.stop();
    assert!(counters.udp.queries_a + counters.tcp.queries_a >= 20, "{counters:?}");
    assert_eq!(counters.udp.malformed + counters.tcp.malformed, 0);
    // Everything, or the one answer that does not fit.
    let over_tcp =
        if setup.over == Transport::Tcp { counters.udp.queries() == 0 } else { counters.tcp.answers > 0 };
    assert!(over_tcp, "{counters:?}");
}

/// The same with a resolver that asks over this transport alone and checks the certificate.
fn resolve_all_kinds_encrypted(resolver: Resolver, over: Transport) {
    let (authority, tls) = certificate();
    let server = start_with(full_config(), |config| encrypted(config, tls));
    let setup = Setup { over, authority, ..resolver.setup() };
    let Some(running) = Running::start(&setup, address(&server, over).port()) else { return };
    check_all_kinds(&running);
    drop(running);

    let counters = server.stop();
    let counted = if over == Transport::Dot { counters.dot } else { counters.doh }.unwrap();
    let traffic = counted.traffic;
    assert!(traffic.queries_a >= 20 && traffic.answers > 40, "{counters:?}");
    assert_eq!((traffic.malformed, traffic.unaccounted(), counted.handshake_failures), (0, 0, 0));
    assert_eq!(counters.udp.queries() + counters.tcp.queries(), 0);
}

fn check_all_kinds(running: &Running) {
    for n in 0..20 {
        check_host(running, n, if n % 2 == 0 { EDNS } else { None });
    }
    check_negatives(running);
    check_rules(running);
}

fn check_host(running: &Running, n: u8, offer: Offer) {
    let ipv4 = [10, 77, 0, n].into();
    let name = format!("010-077-000-{n:03}.dns64perf.test");
    let a = running.expect(&name, Rtype::A, offer, Rcode::NOERROR);
    assert!(records(&a)[0][0].ends_with(&format!(" A {ipv4}")), "{name}");
    let aaaa = running.expect(&name, Rtype::AAAA, offer, Rcode::NOERROR);
    if names::has_aaaa(ipv4, SHARE_PERCENT) {
        let ipv6 = ZoneConfig::default().aaaa_prefix.embed(ipv4);
        assert!(records(&aaaa)[0][0].ends_with(&format!(" AAAA {ipv6}")), "{name}");
        let pointer = running.expect(&in6(ipv6), Rtype::PTR, offer, Rcode::NOERROR);
        assert!(records(&pointer)[0][0].ends_with(&format!(" PTR {name}.")), "{ipv6}");
    } else {
        assert!(records(&aaaa)[1][0].contains(" SOA "), "{name}");
    }
    let pointer = running.expect(&format!("{n}.0.77.10.in-addr.arpa"), Rtype::PTR, offer, Rcode::NOERROR);
    assert!(records(&pointer)[0][0].ends_with(&format!(" PTR {name}.")), "{ipv4}");
}

fn in6(ipv6: std::net::Ipv6Addr) -> String {
    let digits = ipv6.octets().map(|octet| format!("{octet:02x}")).concat();
    digits.chars().rev().map(|digit| format!("{digit}.")).collect::<String>() + "ip6.arpa"
}

fn check_negatives(running: &Running) {
    let negative = |name, qtype, rcode| {
        let answer = running.expect(name, qtype, EDNS, rcode);
        assert_eq!(records(&answer)[0], [""; 0], "{name} {qtype}");
        assert!(records(&answer)[1][0].contains(" SOA ns.dns64perf.test. hostmaster."), "{name} {qtype}");
    };
    negative("nothing.dns64perf.test", Rtype::A, Rcode::NXDOMAIN);
    negative("9.10.in-addr.arpa", Rtype::PTR, Rcode::NOERROR);
    negative("256.9.10.in-addr.arpa", Rtype::PTR, Rcode::NXDOMAIN);
    negative("010-000-000-001.dns64perf.test", Rtype::SRV, Rcode::NOERROR);
    negative("any.dns64perf.test", Rtype::A, Rcode::NOERROR);
    // BIND leaves the SOA out when QNAME minimisation met the NXDOMAIN at a shorter name.
    running.expect("deep.below.nowhere.dns64perf.test", Rtype::AAAA, EDNS, Rcode::NXDOMAIN);
}

fn check_rules(running: &Running) {
    let holds = |name: &str, qtype, part: &str| {
        let answer = running.expect(name, qtype, EDNS, Rcode::NOERROR);
        let [answer, ..] = records(&answer);
        let is_told = answer.iter().any(|record| record.contains(part));
        assert!(is_told, "{name} {qtype}: {answer:?}\n{}", running.log());
    };
    holds("dns64perf.test", Rtype::NS, " NS ns.dns64perf.test.");
    holds("dns64perf.test", Rtype::SOA, " SOA ");
    holds("ns.dns64perf.test", Rtype::A, " A 127.0.0.1");
    holds("10-0-0-1.dns64perf.test", Rtype::A, " A 10.0.0.1");
    holds("x.y.any.dns64perf.test", Rtype::A, " A 10.46.236.132");
    holds("010-000-000-002.c9.dns64perf.test", Rtype::A, "010-000-000-002.dns64perf.test 60 A 10.0.0.2");
    holds("010-000-000-003.d3.dns64perf.test", Rtype::A, "010-000-000-003.dns64perf.test 60 A 10.0.0.3");
    holds("010-000-000-001.dns64perf.test", Rtype::MX, " MX 10 010-000-000-001.dns64perf.test.");
    holds("010-000-000-001.dns64perf.test", Rtype::HTTPS, "ipv4hint=10.0.0.1");
    // Longer than any answer over UDP.
    holds("010-000-000-001.t1400.dns64perf.test", Rtype::TXT, " TXT \"abcdefg");
}

/// A server that knows no EDNS, as those before RFC 6891: it answers FORMERR to an OPT record, and otherwise
/// as the zone does. It ends with the flag.
fn serve_without_edns(socket: &UdpSocket, zone: &Zone, ended: &AtomicBool) -> usize {
    let (mut query, mut answer) = ([0; 4096], [0; 4096]);
    let mut plain = 0;
    while !ended.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
        let query = &query[..length];
        let Ok(message) = Message::parse(query) else { continue };
        let length = if message.edns().unwrap().is_some() {
            let end = message.question_end();
            answer[..end].copy_from_slice(&query[..end]);
            (answer[2], answer[3]) = (query[2] | 0x80, 1);
            answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
            end
        } else {
            plain += 1;
            zone.respond(query, Transport::Udp, &mut answer)
        };
        let _ = socket.send_to(&answer[..length], from);
    }
    plain
}

#[test]
fn every_resolver_without_edns() {
    for resolver in Resolver::ALL {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let zone = Zone::new(full_config()).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| serve_without_edns(&socket, &zone, &ended));
            // A failed check must end the server, too.
            let asked = std::panic::catch_unwind(|| {
                let running = Running::start(&resolver.setup(), port)?;
                (0..5).for_each(|n| check_host(&running, n, None));
                running.expect("nothing.dns64perf.test", Rtype::A, None, Rcode::NXDOMAIN);
                Some(())
            });
            ended.store(true, Ordering::Relaxed);
            let plain = server.join().unwrap();
            match asked {
                Ok(asked) => assert!(asked.is_none() || plain >= 10, "{resolver:?}: {plain}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
    }
}
