//! The form of messages: RFC 5625, RFC 7766, RFC 7873 and RFC 9018, RFC 8914, RFC 9619, RFC 9715.

use std::io::Write;
use std::net::Shutdown;

use dns64::wire::{Header, option_code, rcode};

use crate::support::client::{Answer, ask, ask_edns, connect};
use crate::support::server::Server;
use crate::support::upstream::{Packet, Upstream};
use crate::support::words::{lines, query};
use crate::support::{read_frame, write_frame};
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

const COOKIE: u16 = option_code::COOKIE;

fn site() -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, "");
    (upstream, server)
}

/// A reply of about 4 KiB.
fn large() -> Vec<String> {
    (0..16).map(|n| format!("an large.example.com 60 TXT {n:0>255}")).collect()
}

/// A server that has a large reply over TCP alone.
fn large_site() -> (Upstream, Server) {
    let upstream = Upstream::start();
    upstream.replies("large.example.com TXT", |query| {
        let records = large();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        if query.over_tcp { query.reply(0, &records) } else { query.truncated() }
    });
    let server = Server::before(&upstream, "");
    (upstream, server)
}

#[test]
fn rfc_7766_truncated_replies_are_fetched_over_tcp() {
    let (upstream, server) = large_site();
    let answer = ask("large.example.com TXT").over_tcp(server.address());
    assert_eq!(answer.records(), large());
    let ways: Vec<bool> = upstream.received().iter().map(|query| query.over_tcp).collect();
    assert_eq!(ways, [false, true]);
}

#[test]
fn rfc_7766_answers_come_as_they_are_ready() {
    let upstream = Upstream::saying(&[(A, 0, &[A_RECORD])]);
    upstream.is_silent_on("slow.example.com A");
    let server = Server::before(&upstream, "upstream.timeout_ms = 300");
    let mut stream = connect(server.address());
    // One write, so that both are there at once.
    let messages = [query(1, "slow.example.com A", None), query(2, A, None)];
    let frames: Vec<u8> = messages
        .iter()
        .flat_map(|message| [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat())
        .collect();
    stream.write_all(&frames).unwrap();
    let first = read_frame(&mut stream).unwrap();
    assert_eq!(Header::parse(&first).unwrap().id, 2);
    let second = read_frame(&mut stream).unwrap();
    assert_eq!(Header::parse(&second).unwrap().id, 1);
}

#[test]
fn rfc_7766_a_client_that_has_no_more_gets_its_answer() {
    let (_upstream, server) = site();
    let mut stream = connect(server.address());
    write_frame(&mut stream, &query(9, AAAA, None));
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(lines(&read_frame(&mut stream).unwrap()), [SYNTHESIZED]);
    assert!(read_frame(&mut stream).is_none());
}

#[test]
fn rfc_9715_messages_over_udp_stay_below_1232_octets() {
    let (upstream, server) = large_site();
    for payload_octets in [512, 1232, 4096, 65_535] {
        let mut asked = ask_edns("large.example.com TXT");
        let at = asked.octets.len() - 8;
        asked.octets[at..at + 2].copy_from_slice(&u16::to_be_bytes(payload_octets));
        let answer = asked.over_udp(server.address());
        assert!(answer.has(Header::TC) && answer.octets.len() <= 1232);
        assert_eq!(answer.message().edns().unwrap().unwrap().payload_octets, 1232);
    }
    let received = upstream.received();
    assert!(received.iter().all(|query| query.message().edns().unwrap().unwrap().payload_octets == 1232));
}

#[test]
fn answers_without_edns_stay_below_512_octets() {
    let records: Vec<String> = (0..20).map(|n| format!("an www.example.com 60 A 192.0.2.{n}")).collect();
    let (upstream, server) = site();
    upstream.says(A, 0, &records.iter().map(String::as_str).collect::<Vec<_>>());
    let answer = server.ask(AAAA);
    assert!(answer.has(Header::TC) && answer.octets.len() <= 512);
    assert_eq!(ask_edns(AAAA).over_udp(server.address()).records().len(), 20);
    assert_eq!(ask(AAAA).over_tcp(server.address()).records().len(), 20);
}

#[test]
fn rfc_7873_clients_get_a_server_cookie() {
    let (_upstream, server) = site();
    let first = ask_edns(AAAA).option(COOKIE, b"CLIENT__").over_udp(server.address());
    first.is(0, &[SYNTHESIZED]);
    let cookie = first.option(COOKIE).unwrap();
    // RFC 9018 4: version 1, and 8 octets of hash behind the time.
    assert!(cookie.starts_with(b"CLIENT__\x01\0\0\0") && cookie.len() == 24, "{cookie:02x?}");
    let again = ask_edns(A).option(COOKIE, &cookie).over_udp(server.address());
    assert_eq!((again.rcode(), again.option(COOKIE).unwrap().len()), (0, 24));
    assert_eq!(server.ask(A).option(COOKIE), None);
}

#[test]
fn rfc_7873_malformed_cookies_are_an_error() {
    let (upstream, server) = site();
    let answer = ask_edns(A).option(COOKIE, b"short").over_udp(server.address());
    assert_eq!(answer.rcode(), rcode::FORMERR);
    upstream.was_asked(&[]);
}

#[test]
fn rfc_8914_synthesized_answers_say_so_to_clients_with_edns() {
    let (_upstream, server) = site();
    let answer = ask_edns(AAAA).over_udp(server.address());
    assert_eq!(answer.extended_errors(), [29]);
    assert!(ask_edns(A).over_udp(server.address()).extended_errors().is_empty());
    assert_eq!(server.ask(AAAA).message().edns().unwrap(), None);
}

#[test]
fn rfc_8914_failures_say_why() {
    let upstream = Upstream::start();
    upstream.is_silent_on(A);
    let server = Server::before(&upstream, "upstream.timeout_ms = 200");
    let answer = ask_edns(A).over_udp(server.address());
    assert_eq!((answer.rcode(), answer.extended_errors()), (rcode::SERVFAIL, vec![22]));
}

#[test]
fn rfc_8914_can_be_switched_off() {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, "clients.extended_errors = false");
    let answer = ask_edns(AAAA).over_udp(server.address());
    answer.is(0, &[SYNTHESIZED]);
    assert!(answer.extended_errors().is_empty());
}

#[test]
fn rfc_9619_a_query_has_one_question() {
    let (upstream, server) = site();
    for count in [0, 2, 3] {
        let mut asked = ask(A);
        asked.octets[5] = count;
        let answer = asked.over_udp(server.address());
        assert_eq!(answer.rcode(), rcode::FORMERR, "{count} questions");
    }
    upstream.was_asked(&[]);
}

#[test]
fn rfc_5625_what_is_unknown_passes() {
    let (upstream, server) = site();
    let record = "an www.example.com 60 TYPE65399 \u{1}\u{2}anything";
    upstream.says("www.example.com TYPE65399", 0, &[record]);
    server.ask("www.example.com TYPE65399").is(0, &[record]);
    // Flags and options that nobody knows do not hurt (RFC 6891 6.1.2).
    let asked = ask_edns(A).option(65_001, b"experiment").flag(1 << 6);
    asked.over_udp(server.address()).is(0, &[A_RECORD]);
    upstream.received();
    // Neither is the operation.
    let update = ask("example.com SOA").flag(5 << 11).over_udp(server.address());
    assert_eq!(update.rcode(), rcode::NOTIMP);
    upstream.was_asked(&[]);
}

#[test]
fn rfc_5625_the_spelling_of_the_client_comes_back() {
    let (_upstream, server) = site();
    for words in ["WwW.eXaMpLe.CoM AAAA", AAAA, "www.EXAMPLE.com AAAA"] {
        let answer = server.ask(words);
        assert_eq!(answer.message().question().name.to_string(), format!("{}.", &words[..15]));
    }
}

#[test]
fn rfc_8914_a_query_without_recursion_desired_is_refused() {
    let (upstream, server) = site();
    let answer = ask_edns(A).without_recursion().over_udp(server.address());
    assert_eq!((answer.rcode(), answer.extended_errors()), (rcode::REFUSED, vec![20]));
    upstream.was_asked(&[]);
}

#[test]
fn attack_questions_for_no_records_start_nothing_upstream() {
    let (upstream, server) = site();
    for (words, code) in [
        ("www.example.com TYPE128", rcode::FORMERR), // NXNAME (RFC 9824 3.1)
        ("www.example.com TYPE249", rcode::NOTIMP),  // TKEY
        ("www.example.com TYPE251", rcode::NOTIMP),  // IXFR (RFC 5936 2.2.1)
        ("www.example.com TYPE252", rcode::NOTIMP),  // AXFR
        ("www.example.com TYPE254", rcode::NOTIMP),  // MAILA
        ("www.example.com TYPE41", rcode::NOTIMP),   // OPT
    ] {
        assert_eq!(server.ask(words).rcode(), code, "{words}");
    }
    upstream.was_asked(&[]);
}

#[test]
fn a_higher_edns_version_is_badvers() {
    let (_upstream, server) = site();
    let mut asked = ask_edns(A);
    let version = asked.octets.len() - 5;
    asked.octets[version] = 1;
    let answer = asked.over_udp(server.address());
    let edns = answer.message().edns().unwrap().unwrap();
    assert_eq!((edns.extended_rcode, edns.version, answer.rcode()), (1, 0, 0));
}

#[test]
fn the_answer_to_an_upstream_that_hangs_up_is_servfail() {
    let upstream = Upstream::start();
    upstream.does("broken.example.com A", |query| {
        vec![Packet::Reply(if query.over_tcp { vec![0; 3] } else { query.truncated() })]
    });
    let server = Server::before(&upstream, "upstream.timeout_ms = 300");
    let answer: Answer = server.ask("broken.example.com A");
    answer.is(rcode::SERVFAIL, &[]);
}
