//! With validation of the signed zone.

use std::time::{SystemTime, UNIX_EPOCH};

use authdns::{Signing, SigningKey, Transport, Zone, ZoneConfig};
use domain::base::Message;
use domain::base::iana::{Rcode, Rtype};

use super::plain::{full_config, start_authority};
use super::{Resolver, Running, Setup};
use crate::zone::records;

const DAY_S: u32 = 86_400;

fn signed_config(from_s: u32) -> ZoneConfig {
    let key = SigningKey::from_seed("a test");
    let signing = Signing { key, inception_s: from_s, expiration_s: from_s + DAY_S };
    ZoneConfig { signing: Some(signing), ..full_config() }
}

fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

/// What must be proven, and is answered with AD: name, type, RCODE, and the end of a record of the answer.
const PROVEN: [(&str, Rtype, Rcode, &str); 16] = [
    ("010-000-000-008.dns64perf.test", Rtype::A, Rcode::NOERROR, " A 10.0.0.8"),
    ("010-000-000-007.dns64perf.test", Rtype::AAAA, Rcode::NOERROR, " AAAA 2001:2:0:aaaa::a00:7"),
    ("010-000-000-008.dns64perf.test", Rtype::AAAA, Rcode::NOERROR, ""),
    ("dns64perf.test", Rtype::SOA, Rcode::NOERROR, " 1 3600 600 86400 60"),
    ("dns64perf.test", Rtype::NS, Rcode::NOERROR, " NS ns.dns64perf.test."),
    ("dns64perf.test", Rtype::MX, Rcode::NOERROR, ""),
    ("nothing.dns64perf.test", Rtype::A, Rcode::NXDOMAIN, ""),
    ("deep.below.nowhere.dns64perf.test", Rtype::AAAA, Rcode::NXDOMAIN, ""),
    ("any.dns64perf.test", Rtype::A, Rcode::NOERROR, ""),
    ("x.y.any.dns64perf.test", Rtype::A, Rcode::NOERROR, " A 10.46.236.132"),
    ("010-000-000-003.c4.dns64perf.test", Rtype::A, Rcode::NOERROR, " A 10.0.0.3"),
    (
        "010-000-000-008.c4.dns64perf.test",
        Rtype::AAAA,
        Rcode::NOERROR,
        " CNAME 010-000-000-008.dns64perf.test.",
    ),
    ("010-000-000-004.d3.dns64perf.test", Rtype::A, Rcode::NOERROR, " A 10.0.0.4"),
    ("010-000-000-007.dns64perf.test", Rtype::HTTPS, Rcode::NOERROR, "ipv6hint=2001:2:0:aaaa::a00:7"),
    ("8.0.0.10.in-addr.arpa", Rtype::PTR, Rcode::NOERROR, " PTR 010-000-000-008.dns64perf.test."),
    ("257.0.10.in-addr.arpa", Rtype::PTR, Rcode::NXDOMAIN, ""),
];

fn validate(setup: &Setup) {
    let config = signed_config(now_s() - DAY_S / 2);
    let anchors = Zone::new(config.clone()).unwrap().trust_anchors();
    let authority = start_authority(config);
    let setup = Setup { anchors, ..setup.clone() };
    let Some(running) = Running::start(&setup, authority.local_addrs()[0].port()) else { return };
    for (name, qtype, rcode, end) in PROVEN {
        for offer in [Some((1232, true)), Some((1232, false)), None] {
            let answer = running.expect(name, qtype, offer, rcode);
            let header = Message::from_octets(&answer[..]).unwrap().header();
            assert!(header.ad(), "{name} {qtype}\n{}", running.log());
            let told = end.is_empty() || records(&answer)[0].iter().any(|record| record.ends_with(end));
            assert!(told, "{name} {qtype}: {:?}", records(&answer));
        }
    }
    drop(running);
    let counters = authority.stop();
    assert!(setup.over != Transport::Tcp || counters.udp.queries() == 0, "{counters:?}");
}

#[test]
fn bind_validates() {
    validate(&Resolver::Bind.setup());
}

#[test]
fn bind_validates_as_it_iterates() {
    validate(&Setup { iterates: true, ..Resolver::Bind.setup() });
}

#[test]
fn bind_validates_over_tcp() {
    validate(&Setup { over: Transport::Tcp, ..Resolver::Bind.setup() });
}

#[test]
fn unbound_validates() {
    validate(&Resolver::Unbound.setup());
}

#[test]
fn unbound_validates_as_it_iterates() {
    validate(&Setup { iterates: true, ..Resolver::Unbound.setup() });
}

#[test]
fn unbound_validates_over_tcp() {
    validate(&Setup { over: Transport::Tcp, ..Resolver::Unbound.setup() });
}

#[test]
fn powerdns_recursor_validates() {
    validate(&Resolver::Powerdns.setup());
}

#[test]
fn knot_resolver_validates() {
    validate(&Resolver::Knot.setup());
}

#[test]
fn knot_resolver_validates_over_tcp() {
    validate(&Setup { over: Transport::Tcp, ..Resolver::Knot.setup() });
}

/// Every resolver must answer SERVFAIL where what it trusts and the zone do not agree.
fn refuse(config: &ZoneConfig, trusted: &ZoneConfig) {
    let anchors = Zone::new(trusted.clone()).unwrap().trust_anchors();
    for resolver in Resolver::ALL {
        let authority = start_authority(config.clone());
        let setup = Setup { anchors: anchors.clone(), ..resolver.setup() };
        let Some(running) = Running::start(&setup, authority.local_addrs()[0].port()) else { continue };
        for name in ["010-000-000-008.dns64perf.test", "nothing.dns64perf.test"] {
            running.expect(name, Rtype::A, Some((1232, true)), Rcode::SERVFAIL);
        }
    }
}

#[test]
fn a_zone_of_another_key_is_bogus() {
    let config = signed_config(now_s() - DAY_S / 2);
    let mut other = config.clone();
    other.signing.as_mut().unwrap().key = SigningKey::from_seed("another key");
    refuse(&config, &other);
}

#[test]
fn an_unsigned_zone_is_bogus_where_a_key_is_trusted() {
    refuse(&full_config(), &signed_config(now_s()));
}

#[test]
fn signatures_of_the_past_are_bogus() {
    let config = signed_config(now_s() - 10 * DAY_S);
    refuse(&config, &config);
}
