//! Servers that fail, keep silent or send too much, and zones that make work.

use std::time::Duration;

use dns64::wire::{Section, rcode, rtype};

use super::world::{Entry, NSEC, Room, Zone, bitmap, entry, good_times, name};

#[test]
fn keys_are_asked_for_once() {
    let room = Room::honest();
    for _ in 0..20 {
        room.send("www.secure.test", rtype::A, 0, true, Duration::from_secs(10));
    }
    for _ in 0..20 {
        assert_eq!(room.receive().unwrap().verdict(), (rcode::NOERROR, true, None));
    }
    // DNSKEY and DS of three zones but the DS of the root.
    assert_eq!(room.counts().chain_queries, 5);
    assert_eq!(room.asked.lock().unwrap().len(), 25);
}

#[test]
fn a_failure_of_the_server_is_no_forgery_and_soon_forgotten() {
    let mut failures = 1;
    let room = Room::with(move |_, question, mut reply| {
        if question.qtype == rtype::DS && question.name == name("secure.test") && failures > 0 {
            failures -= 1;
            reply.entries.clear();
            reply.rcode = rcode::SERVFAIL;
        }
        Some(reply)
    });
    assert!(room.ask("www.secure.test", rtype::A).is_none());
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), (rcode::NOERROR, true, None));
}

#[test]
fn the_failure_of_the_question_itself_is_passed_on() {
    let room = Room::with(|_, _, mut reply| {
        reply.entries.clear();
        reply.rcode = rcode::REFUSED;
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict().0, rcode::REFUSED);
}

#[test]
fn silence_ends_in_time() {
    let room = Room::with(|_, _, _| None);
    room.send("www.secure.test", rtype::A, 0, true, Duration::from_millis(200));
    assert!(room.receive().is_none());
    let room = Room::with(|_, question, reply| (question.qtype == rtype::A).then_some(reply));
    room.send("www.secure.test", rtype::A, 0, true, Duration::from_millis(200));
    assert!(room.receive().is_none());
    assert_eq!(room.counts().failures, 1);
}

#[test]
fn a_reply_with_very_many_records_is_not_judged() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::A {
            let more = (0..600_u16).map(|number| {
                let [high, low] = number.to_be_bytes();
                entry(Section::Answer, "www.secure.test", rtype::A, &[198, 51, high, low])
            });
            reply.entries.extend(more);
        }
        Some(reply)
    });
    assert!(room.ask("www.secure.test", rtype::A).is_none());
}

#[test]
fn an_answer_with_very_many_zones_asks_few_questions() {
    let room = Room::with(|world, question, mut reply| {
        if question.qtype == rtype::A {
            for number in 0..100 {
                let owner = format!("n{number}.zone{number}.test");
                reply.entries.push(entry(Section::Answer, &owner, rtype::A, &[192, 0, 2, 1]));
            }
        } else if question.qtype == rtype::DS
            && question.name.labels().count() == 2
            && !reply.entries.is_empty()
        {
            // Every one of them is a delegation without DS.
            let owner = super::world::text(&question.name);
            if owner.starts_with("zone") {
                reply = Default::default();
                let rdata = [name("zzz.test").as_wire(), &bitmap(&[rtype::NS])].concat();
                reply.add(&world.test, entry(Section::Authority, &owner, NSEC, &rdata));
            }
        }
        Some(reply)
    });
    let _ = room.ask("www.secure.test", rtype::A);
    let questions = room.counts().chain_queries;
    assert!((33..=64).contains(&questions), "{questions}");
}

#[test]
fn a_question_without_time_has_no_answer() {
    let room = Room::honest();
    room.send("www.secure.test", rtype::A, 0, true, Duration::ZERO);
    assert!(room.receive().is_none());
}

/// KeyTrap (CVE-2023-50387): many keys with one tag and many signatures that name it. Each pair may be
/// checked, and none fits.
#[test]
fn attack_keys_with_one_tag_are_not_all_tried() {
    let seen = |keys, own_at| room_of_keys(keys, own_at).ask("www.secure.test", rtype::A);
    assert!(seen(32, 0).is_none(), "so many keys are not looked at");
    for (own_at, bound) in
        [(0, "too many bad signatures"), (31, "Too many DNSKEYs that do not match DS record")]
    {
        let seen = seen(31, own_at).unwrap();
        assert_eq!(seen.verdict(), (rcode::SERVFAIL, false, Some(6)));
        assert_eq!(seen.extended_error_text(), bound);
    }
}

/// A zone with so many keys of one tag beside its own, which has this place among them, and as many
/// signatures that none of them made.
fn room_of_keys(count: usize, own_at: usize) -> Room {
    Room::with(move |world, question, mut reply| {
        let zone = &world.secure;
        if question.qtype == rtype::DNSKEY && question.name == zone.name {
            let mut set: Vec<Entry> = (0..count).map(|number| key_of_the_same_tag(zone, number)).collect();
            set.insert(own_at, reply.entries[0].clone());
            let signature = zone.sign(&set, zone.name, good_times());
            reply.entries = set.into_iter().chain([signature]).collect();
        } else if question.qtype == rtype::A {
            let signature = reply.entries.pop().unwrap();
            let forged = (0..count).map(|number| {
                let mut forged = signature.clone();
                *forged.rdata.last_mut().unwrap() ^= number as u8 + 1;
                forged
            });
            reply.entries.extend(forged);
        }
        Some(reply)
    })
}

/// A key that nobody has, with the tag of the zone's key: two words of the key change places, and the tag is
/// their sum.
fn key_of_the_same_tag(zone: &Zone, number: usize) -> Entry {
    let mut rdata = zone.dnskey();
    let (first, apart) = (4 + 2 * (number % 16), 2 * (1 + number / 16));
    rdata.swap(first, first + apart);
    rdata.swap(first + 1, first + apart + 1);
    entry(Section::Answer, "secure.test", rtype::DNSKEY, &rdata)
}

/// CVE-2023-50868: each name that is denied is hashed so often. RFC 9276 3.2 lets a validator stop.
#[test]
fn attack_nsec3_with_many_iterations_proves_nothing() {
    for (iterations, verdict) in
        [(51, (rcode::NXDOMAIN, false, None)), (2_500, (rcode::SERVFAIL, false, Some(6)))]
    {
        let room = Room::with(move |world, question, mut reply| {
            if question.qtype == rtype::A {
                reply.entries.retain(|entry| entry.rtype != NSEC && entry.rtype != rtype::RRSIG);
                let soa = reply.entries.pop().unwrap();
                reply.add(&world.secure, soa);
                reply.add(&world.secure, nsec3(iterations));
            }
            Some(reply)
        });
        assert_eq!(room.ask("nothing.secure.test", rtype::A).unwrap().verdict(), verdict, "{iterations}");
    }
}

/// An NSEC3 record that covers all names but one (RFC 5155 3.2).
fn nsec3(iterations: u16) -> Entry {
    let head = [&[1, 0][..], &iterations.to_be_bytes(), &[0, 20]].concat();
    let rdata = [&head[..], &[0xff; 20], &bitmap(&[rtype::NS, rtype::SOA, rtype::RRSIG])].concat();
    entry(Section::Authority, &format!("{}.secure.test", "0".repeat(32)), rtype::NSEC3, &rdata)
}
