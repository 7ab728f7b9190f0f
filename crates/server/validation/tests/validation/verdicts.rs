//! Honest servers, and signatures that do not hold.

use dns64::wire::{Header, rcode, rtype};

use super::world::{NSEC, Room, Zone, good_times, name, now_s};

const SECURE: (u8, bool, Option<u16>) = (rcode::NOERROR, true, None);
const INSECURE: (u8, bool, Option<u16>) = (rcode::NOERROR, false, None);

fn bogus(code: u16) -> (u8, bool, Option<u16>) {
    (rcode::SERVFAIL, false, Some(code))
}

#[test]
fn a_signed_answer_is_secure() {
    let room = Room::honest();
    let seen = room.ask("www.secure.test", rtype::A).unwrap();
    assert_eq!(seen.verdict(), SECURE);
    assert_eq!((seen.count(rtype::A), seen.count(rtype::RRSIG)), (1, 1));
    assert_eq!(room.counts().secure, 1);
}

#[test]
fn dnssec_records_are_given_to_those_alone_who_want_them() {
    let room = Room::honest();
    let seen = room.ask_plain("www.secure.test", rtype::AAAA, 0).unwrap();
    assert_eq!(seen.verdict(), SECURE);
    assert_eq!((seen.count(rtype::SOA), seen.count(NSEC), seen.count(rtype::RRSIG)), (1, 0, 0));
    let seen = room.ask("www.secure.test", rtype::AAAA).unwrap();
    assert_eq!((seen.count(rtype::SOA), seen.count(NSEC), seen.count(rtype::RRSIG)), (1, 1, 2));
}

#[test]
fn what_is_not_there_is_securely_denied() {
    let room = Room::honest();
    assert_eq!(room.ask("www.secure.test", rtype::AAAA).unwrap().verdict(), SECURE);
    assert_eq!(room.ask("no.secure.test", rtype::A).unwrap().verdict(), (rcode::NXDOMAIN, true, None));
}

#[test]
fn an_answer_from_a_wildcard_is_secure_with_its_proof_alone() {
    let room = Room::honest();
    assert_eq!(room.ask("a.wild.secure.test", rtype::A).unwrap().verdict(), SECURE);
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::A {
            reply.entries.truncate(2);
        }
        Some(reply)
    });
    assert_eq!(room.ask("a.wild.secure.test", rtype::A).unwrap().verdict(), bogus(6));
}

#[test]
fn a_delegation_without_ds_is_insecure() {
    let room = Room::honest();
    assert_eq!(room.ask("www.insecure.test", rtype::A).unwrap().verdict(), INSECURE);
    assert_eq!(room.ask("www.insecure.test", rtype::AAAA).unwrap().verdict(), INSECURE);
    assert_eq!(room.counts().insecure, 2);
}

#[test]
fn a_chain_is_as_insecure_as_its_end() {
    let room = Room::honest();
    let seen = room.ask("alias.secure.test", rtype::A).unwrap();
    assert_eq!(seen.verdict(), INSECURE);
    assert_eq!((seen.count(rtype::CNAME), seen.count(rtype::A)), (1, 1));
}

#[test]
fn changed_rdata_is_bogus() {
    let room = Room::with(|_, _, mut reply| {
        for entry in reply.entries.iter_mut().filter(|entry| entry.rtype == rtype::A) {
            entry.rdata[3] ^= 1;
        }
        Some(reply)
    });
    let seen = room.ask("www.secure.test", rtype::A).unwrap();
    assert_eq!(seen.verdict(), bogus(6));
    assert_eq!(seen.message().header.counts[1], 0);
    // An extended error says why, in an OPT record alone.
    assert_eq!(room.ask_plain("www.secure.test", rtype::A, 0).unwrap().verdict(), bogus(6));
    assert_eq!(room.counts().bogus, 2);
}

#[test]
fn missing_signatures_are_bogus() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::A {
            reply.drop_type(rtype::RRSIG);
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), bogus(10));
}

#[test]
fn a_denial_without_its_proof_is_bogus() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::AAAA {
            reply.entries.truncate(2);
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::AAAA).unwrap().verdict(), bogus(12));
}

#[test]
fn a_missing_dnskey_is_bogus_or_undecided() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::DNSKEY && question.name == name("secure.test") {
            reply.entries.clear();
        }
        Some(reply)
    });
    // Whether the server failed or someone took the keys away cannot be told.
    assert!(room.ask("www.secure.test", rtype::A).is_none());
}

#[test]
fn a_ds_record_of_another_key_is_bogus() {
    let room = Room::with(|world, question, mut reply| {
        if question.qtype == rtype::DS && question.name == name("secure.test") {
            reply.entries[0].rdata = Zone::new("another").ds();
            let set = [reply.entries[0].clone()];
            reply.entries[1] = world.test.sign(&set, set[0].owner, good_times());
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict().0, rcode::SERVFAIL);
}

/// RFC 4035 5.2. The validator knows RSA and P-256, not P-384 and Ed25519.
#[test]
fn a_zone_signed_by_an_unknown_algorithm_is_insecure() {
    let room = Room::with(|world, question, mut reply| {
        if question.qtype == rtype::DS && question.name == name("secure.test") {
            reply.entries[0].rdata[2] = 15;
            let set = [reply.entries[0].clone()];
            reply.entries[1] = world.test.sign(&set, set[0].owner, good_times());
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), INSECURE);
}

#[test]
fn signatures_count_in_their_time_alone() {
    for (from_s, until_s, code) in [(-7200, -3600, 7), (3600, 7200, 8)] {
        let room = Room::with(move |world, question, mut reply| {
            if question.qtype == rtype::A {
                let set = [reply.entries[0].clone()];
                let at = |offset: i32| now_s().wrapping_add_signed(offset);
                reply.entries[1] = world.secure.sign(&set, set[0].owner, (at(from_s), at(until_s)));
            }
            Some(reply)
        });
        assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), bogus(code));
    }
}

#[test]
fn ttls_are_no_longer_than_the_signature_allows() {
    let room = Room::with(|world, question, mut reply| {
        if question.qtype == rtype::A {
            let set = [reply.entries[0].clone()];
            reply.entries[1] = world.secure.sign(&set, set[0].owner, (now_s() - 60, now_s() + 100));
            reply.entries.iter_mut().for_each(|entry| entry.ttl_s = 86_400);
        }
        Some(reply)
    });
    let seen = room.ask("www.secure.test", rtype::A).unwrap();
    assert_eq!(seen.verdict(), SECURE);
    assert!(seen.message().answers().all(|record| record.ttl <= 100));
}

#[test]
fn questions_with_cd_are_not_judged() {
    let room = Room::with(|_, _, mut reply| {
        reply.drop_type(rtype::RRSIG);
        Some(reply)
    });
    let seen = room.ask_plain("www.secure.test", rtype::A, Header::CD).unwrap();
    assert_eq!(seen.verdict(), INSECURE);
    assert_eq!(seen.count(rtype::A), 1);
    assert_eq!(room.counts().unjudged, 1);
}

#[test]
fn any_is_judged_and_never_secure() {
    assert_eq!(Room::honest().ask("www.secure.test", rtype::ANY).unwrap().verdict(), INSECURE);
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::ANY {
            reply.entries[0].rdata[3] ^= 1;
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::ANY).unwrap().verdict(), bogus(6));
}
