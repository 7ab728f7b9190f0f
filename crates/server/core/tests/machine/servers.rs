//! The upstream servers: groups and routes, limits, servers that are down, loops.

use dns64::wire::{Name, rcode};
use server_core::machine::Notice;
use server_core::settings::Upstream;

use crate::support::query;
use crate::talk::{ClientQuery, MS, S, Talk, extended_errors, settings, settings_for, settings_with};
use crate::{A, A_RECORD};

/// Two servers: the second for `corp.example`, with entries of its own.
fn routed() -> Talk {
    Talk::with_cache(settings_with(|settings| {
        settings.upstreams = vec![Upstream::default(); 2];
        settings.groups = vec![vec![0], vec![1]];
        settings.routes.insert(&Name::from_text("corp.example").unwrap(), 1);
    }))
}

#[test]
fn questions_go_where_their_domain_is_routed() {
    let mut talk = routed();
    for (words, server) in [(A, 0), ("www.CORP.example A", 1), ("corp.example A", 1), ("acorp.example A", 0)]
    {
        talk.client_asks(words);
        let asked = talk.asked_and_told(words, 0, &[]);
        assert_eq!(asked.upstream, server, "{words}");
        talk.answered(words, 0, &[]);
    }
    talk.over();
}

/// The next try must not tell the public what is asked inside.
#[test]
fn a_silent_server_does_not_send_its_questions_to_another_group() {
    let mut talk = routed();
    talk.client_asks("www.corp.example A");
    for _ in 0..3 {
        assert_eq!(talk.asked("www.corp.example A").upstream, 1);
        talk.wait(800 * MS);
    }
    talk.answered("www.corp.example A", rcode::SERVFAIL, &[]);
    talk.over();
}

#[test]
fn no_server_has_more_in_flight_than_it_may() {
    let mut talk = Talk::new(settings_with(|settings| {
        settings.upstreams = vec![Upstream { in_flight: 2, ..Upstream::default() }; 2];
        settings.groups = vec![vec![0, 1]];
    }));
    let mut asked: Vec<ClientQuery> = Vec::new();
    for number in 0..4 {
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        asked.push(talk.asked(&words));
    }
    assert_eq!(asked.iter().filter(|asked| asked.upstream == 0).count(), 2);
    talk.client_sends(&query(0x1234, A, Some((1232, false))));
    let answer = talk.answer();
    assert_eq!((answer[3] & 0x0f, extended_errors(&answer)), (rcode::SERVFAIL, vec![14]));
    talk.silent();
    for round in 0..3 {
        talk.wait(800 * MS);
        let counts: Vec<usize> =
            talk.machine.upstream_counts(talk.now_ns).map(|counts| counts.in_flight).collect();
        assert_eq!(counts, if round < 2 { [2, 2] } else { [0, 0] }, "tries keep the limit, too");
    }
}

/// A local lack of room says nothing about the name.
#[test]
fn a_question_without_room_is_not_remembered_as_a_failure() {
    let mut talk = Talk::with_cache(settings_with(|settings| settings.upstreams[0].in_flight = 1));
    talk.client_asks("other.example A");
    let other = talk.asked("other.example A");
    talk.client_asks(A);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.replies(&other, 0, &[]);
    talk.answered("other.example A", 0, &[]);
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn a_server_that_is_silent_for_long_is_left_out_and_comes_back() {
    let mut talk = Talk::new(settings_with(|settings| settings.asking.tries = 1));
    for number in 0..16 {
        assert!(talk.sent.notices.is_empty());
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        talk.asked(&words);
        talk.wait(800 * MS);
        talk.answered(&words, rcode::SERVFAIL, &[]);
    }
    assert_eq!(talk.sent.notices, [Notice::UpstreamDown(0)]);
    assert!(talk.machine.upstream_counts(talk.now_ns).next().unwrap().down);
    talk.client_asks(A);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    assert_eq!(talk.sent.notices, [Notice::UpstreamDown(0), Notice::UpstreamUp(0)]);
    assert!(!talk.machine.upstream_counts(talk.now_ns).next().unwrap().down);
    talk.over();
}

#[test]
fn a_server_whose_streams_fail_is_left_out() {
    let mut talk = Talk::new(settings_with(|settings| {
        settings.upstreams[0].stream_only = true;
        settings.asking.tries = 1;
    }));
    for number in 0..16 {
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        let asked = talk.asked(&words);
        talk.stream_ends(&asked);
        talk.answered(&words, rcode::SERVFAIL, &[]);
    }
    assert_eq!(talk.sent.notices, [Notice::UpstreamDown(0)]);
    talk.over();
}

#[test]
fn an_unreachable_server_is_news_once() {
    let mut talk = Talk::new(settings_for(2));
    talk.client_asks(A);
    let first = talk.asked(A);
    talk.unreachable(&first);
    talk.unreachable(&first);
    assert!(talk.sent.notices.is_empty());
    talk.wait(100 * MS);
    assert_eq!(talk.sent.notices, [Notice::UpstreamDown(first.upstream)]);
    let second = talk.asked(A);
    talk.replies(&second, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// It may have company in one group and be alone in another, whose questions it is given time for.
#[test]
fn an_unreachable_server_is_given_time_where_it_is_alone() {
    let mut talk = Talk::new(settings_with(|settings| {
        settings.upstreams = vec![Upstream::default(); 2];
        settings.groups = vec![vec![0, 1], vec![1]];
        settings.routes.insert(&Name::from_text("corp.example").unwrap(), 1);
    }));
    talk.client_asks("corp.example A");
    let asked = talk.asked("corp.example A");
    talk.unreachable(&asked);
    talk.silent();
    talk.wait(800 * MS);
    talk.asked_and_told("corp.example A", 0, &[]);
    talk.answered("corp.example A", 0, &[]);
    talk.over();
}

#[test]
fn the_faster_server_is_asked_more_often() {
    let mut talk = Talk::new(settings_for(2));
    let mut asked_of = [0; 2];
    for number in 0..400 {
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        let asked = talk.asked(&words);
        asked_of[asked.upstream] += 1;
        talk.wait([MS, 40 * MS][asked.upstream]);
        talk.replies(&asked, 0, &[]);
        talk.answered(&words, 0, &[]);
    }
    assert!(asked_of[0] > 2 * asked_of[1] && asked_of[1] > 20, "{asked_of:?}");
    talk.over();
}

/// The probes of a machine.
fn probes(talk: &mut Talk) -> Vec<ClientQuery> {
    talk.machine.probe(talk.now_ns, true, &mut talk.sent);
    talk.sent.queries.drain(..).collect()
}

#[test]
fn a_server_that_asks_us_is_found_and_left_out() {
    let mut talk = Talk::with_cache(settings_for(2));
    let probes = probes(&mut talk);
    assert_eq!(probes.iter().map(|probe| probe.upstream).collect::<Vec<_>>(), [0, 1]);
    // The second one asks us.
    talk.client_sends(&query(0x1234, &format!("{} TXT", probes[1].question().name), Some((1232, false))));
    let answer = talk.answer();
    assert_eq!((answer[3] & 0x0f, extended_errors(&answer)), (rcode::SERVFAIL, vec![23]));
    assert_eq!(talk.sent.notices, [Notice::Loop(1)]);
    talk.replies(&probes[0], rcode::NXDOMAIN, &[]);
    talk.replies(&probes[1], rcode::SERVFAIL, &[]);
    talk.over();
    for number in 0..20 {
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        assert_eq!(talk.asked_and_told(&words, rcode::SERVFAIL, &[]).upstream, 0);
        assert_eq!(talk.asked_and_told(&words, 0, &[]).upstream, 0, "nor for a second try");
        talk.answered(&words, 0, &[]);
    }
    talk.over();
    assert_eq!(talk.sent.notices.len(), 1);
}

#[test]
fn where_the_only_server_asks_us_nothing_is_asked() {
    let mut talk = Talk::new(settings());
    let probes = probes(&mut talk);
    talk.client_asks(A);
    let asked = talk.asked(A);
    talk.client_asks(&format!("{} TXT", probes[0].question().name));
    talk.answer();
    talk.client_asks("other.example A");
    talk.answered("other.example A", rcode::SERVFAIL, &[]);
    talk.wait(800 * MS);
    talk.answered(A, rcode::SERVFAIL, &[]);
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.over();
}

#[test]
fn probes_are_not_kept_nor_tried_again_and_can_be_switched_off() {
    let mut talk = Talk::with_cache(settings());
    assert_eq!(probes(&mut talk).len(), 1);
    talk.wait(S);
    talk.over();
    assert_eq!(talk.shared.cache.counts().inserted, 0);
    let mut talk = Talk::new(settings_with(|settings| settings.asking.loop_probe = false));
    assert!(probes(&mut talk).is_empty());
}
