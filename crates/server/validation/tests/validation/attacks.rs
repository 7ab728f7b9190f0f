//! Forged replies that a validator may take for less than bogus.

use dns64::wire::{Question, Section, rcode, rtype};

use super::world::{Reply, Room, World, Zone, entry, good_times, name, now_s};

/// A forged address in the place of a reply, with a signature by this zone.
fn forged(owner: &str, signer: &Zone) -> Reply {
    let mut reply = Reply::default();
    reply.add(signer, entry(Section::Answer, owner, rtype::A, &[203, 0, 113, 66]));
    reply
}

fn is_refused(room: &Room, owner: &str, qtype: u16) {
    let seen = room.ask(owner, qtype);
    assert!(seen.is_none_or(|seen| seen.verdict().0 == rcode::SERVFAIL));
}

/// The validator alone would look for the keys of the unsigned zone and call the answer insecure.
#[test]
fn a_signature_of_an_unsigned_zone_elsewhere_makes_nothing_insecure() {
    let room = Room::with(|_, question, reply| {
        let asked = question.qtype == rtype::A;
        Some(if asked { forged("www.secure.test", &Zone::new("insecure.test")) } else { reply })
    });
    is_refused(&room, "www.secure.test", rtype::A);
}

#[test]
fn a_denial_signed_by_an_unsigned_zone_makes_nothing_insecure() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::AAAA {
            reply.entries.truncate(1);
            let set = [reply.entries[0].clone()];
            reply.entries.push(Zone::new("insecure.test").sign(&set, set[0].owner, good_times()));
        }
        Some(reply)
    });
    is_refused(&room, "www.secure.test", rtype::AAAA);
}

#[test]
fn a_zone_below_an_anchor_is_not_signed_from_above_it() {
    // The root says that `test` is signed in a way that nobody knows; `secure.test` has an anchor of its own.
    let world = World::new();
    let anchors = format!("{}\n{}", world.root.anchor("."), world.secure.anchor("secure.test."));
    let insecure = |world: &World, question: &Question, mut reply: Reply| {
        if question.qtype == rtype::DS && question.name == world.test.name {
            reply.entries[0].rdata[2] = 15;
            let set = [reply.entries[0].clone()];
            reply.entries[1] = world.root.sign(&set, set[0].owner, good_times());
        }
        reply
    };
    let room = Room::anchored(&anchors, move |world, question, reply| Some(insecure(world, question, reply)));
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), (rcode::NOERROR, true, None));
    assert_eq!(room.ask("www.insecure.test", rtype::A).unwrap().verdict(), (rcode::NOERROR, false, None));
    let room = Room::anchored(&anchors, move |world, question, reply| {
        let forge = question.qtype == rtype::A;
        Some(if forge { forged("www.secure.test", &world.test) } else { insecure(world, question, reply) })
    });
    is_refused(&room, "www.secure.test", rtype::A);
}

#[test]
fn a_zone_does_not_sign_for_its_sister_or_parent() {
    for owner in ["www.other.test", "www.test"] {
        let room = Room::with(move |world, question, reply| {
            Some(if question.qtype == rtype::A { forged(owner, &world.secure) } else { reply })
        });
        is_refused(&room, owner, rtype::A);
    }
}

#[test]
fn a_signature_that_was_good_is_not_good_for_ever() {
    // It expires between two questions.
    let until_s = now_s() + 2;
    let mut signature = None;
    let room = Room::with(move |world, question, mut reply| {
        if question.qtype == rtype::A {
            let set = [reply.entries[0].clone()];
            let sign = || world.secure.sign(&set, set[0].owner, (now_s() - 60, until_s));
            reply.entries[1] = signature.get_or_insert_with(sign).clone();
        }
        Some(reply)
    });
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), (rcode::NOERROR, true, None));
    while now_s() <= until_s {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(room.ask("www.secure.test", rtype::A).unwrap().verdict(), (rcode::SERVFAIL, false, Some(7)));
}

#[test]
fn unsigned_ds_denials_do_not_take_security_away() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::DS && question.name == name("secure.test") {
            reply.entries.clear();
        } else {
            reply.drop_type(rtype::RRSIG);
        }
        Some(reply)
    });
    is_refused(&room, "www.secure.test", rtype::A);
}

#[test]
fn records_beside_the_answer_are_left_out() {
    let room = Room::with(|_, question, mut reply| {
        if question.qtype == rtype::A {
            reply.entries.push(entry(
                Section::Authority,
                "secure.test",
                rtype::NS,
                name("ns.evil.test").as_wire(),
            ));
            reply.entries.push(entry(Section::Additional, "ns.evil.test", rtype::A, &[203, 0, 113, 66]));
        }
        Some(reply)
    });
    let seen = room.ask("www.secure.test", rtype::A).unwrap();
    assert_eq!(seen.verdict(), (rcode::NOERROR, true, None));
    assert_eq!((seen.count(rtype::NS), seen.count(rtype::A)), (0, 1));
}
