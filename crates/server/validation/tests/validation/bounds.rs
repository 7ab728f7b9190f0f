//! Servers that fail, keep silent or send too much.

use std::time::Duration;

use dns64::wire::{Section, rcode, rtype};

use super::world::{Room, entry, name};

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
                let rdata = [name("zzz.test").as_wire(), &super::world::bitmap(&[rtype::NS])].concat();
                reply.add(&world.test, entry(Section::Authority, &owner, super::world::NSEC, &rdata));
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
