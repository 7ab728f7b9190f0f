//! Upstream servers that err or lie, and what dns64d does about silent ones.

use dns64::wire::{Header, rcode};

use crate::support::client::{ask, connect};
use crate::support::server::{Server, config_text};
use crate::support::upstream::Upstream;
use crate::support::words::query;
use crate::support::{read_frame, write_frame};
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

#[test]
fn a_loop_of_aliases_is_servfail() {
    let aliases = ["an www.example.com 60 CNAME a.example.com", "an a.example.com 60 CNAME www.example.com"];
    let upstream = Upstream::saying(&[(AAAA, 0, &aliases), (A, 0, &aliases)]);
    let server = Server::before(&upstream, "");
    for words in [AAAA, A] {
        server.ask(words).is(rcode::SERVFAIL, &[]);
    }
}

#[test]
fn a_hundred_aliases_are_servfail() {
    let aliases: Vec<String> = (0..100)
        .map(|n| format!("an n{n}.example.com 60 CNAME n{}.example.com", n + 1))
        .chain(["an n100.example.com 60 A 192.0.2.1".to_owned()])
        .collect();
    let upstream = Upstream::start();
    let aliases: Vec<&str> = aliases.iter().map(String::as_str).collect();
    upstream.says("n0.example.com AAAA", 0, &aliases);
    upstream.says("n0.example.com A", 0, &aliases);
    let server = Server::before(&upstream, "");
    server.ask("n0.example.com AAAA").is(rcode::SERVFAIL, &[]);
}

#[test]
fn a_server_that_truncates_for_ever_is_servfail() {
    let upstream = Upstream::start();
    upstream.replies(A, |query| query.truncated());
    let server = Server::before(&upstream, "upstream.timeout_ms = 500");
    server.ask(A).is(rcode::SERVFAIL, &[]);
}

#[test]
fn the_largest_message_goes_through_by_tcp() {
    let records: Vec<String> = (0..240).map(|n| format!("an www.example.com 60 TXT {n:0>250}")).collect();
    let upstream = Upstream::start();
    let said = records.clone();
    upstream.replies("www.example.com TXT", move |query| match query.over_tcp {
        true => query.reply(0, &said.iter().map(String::as_str).collect::<Vec<_>>()),
        false => query.truncated(),
    });
    let server = Server::before(&upstream, "");
    assert!(server.ask("www.example.com TXT").has(Header::TC));
    assert_eq!(ask("www.example.com TXT").over_tcp(server.address()).records(), records);
}

#[test]
fn a_reply_that_is_late_does_not_become_another_answer() {
    let upstream = Upstream::start();
    // Each query gets the reply to the one before it.
    let mut before: Option<Vec<u8>> = None;
    upstream.replies(A, move |query| {
        before.replace(query.reply(0, &["an www.example.com 60 A 203.0.113.66"])).unwrap_or_default()
    });
    let server = Server::before(&upstream, "upstream.timeout_ms = 200\nupstream.ports = 1");
    let answer = server.ask(A);
    assert_eq!((answer.rcode(), answer.records()), (rcode::SERVFAIL, vec![]));
}

#[test]
fn absurd_ttls_count_as_none() {
    let upstream =
        Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &["an www.example.com 4294967295 A 192.0.2.1"])]);
    let server = Server::before(&upstream, "");
    server.ask(AAAA).is(0, &["an www.example.com 0 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn many_clients_with_one_question_are_one_query() {
    let upstream = Upstream::start();
    upstream.replies(AAAA, |query| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        query.reply(0, &[SOA])
    });
    upstream.says(A, 0, &[A_RECORD]);
    let server = Server::before(&upstream, "");
    let mut streams: Vec<_> = (0..20).map(|_| connect(server.address())).collect();
    for (id, stream) in (0..).zip(&mut streams) {
        write_frame(stream, &query(id, AAAA, None));
    }
    for (id, stream) in (0..).zip(&mut streams) {
        ask(AAAA).numbered(id).answered_by(read_frame(stream).unwrap()).is(0, &[SYNTHESIZED]);
    }
    upstream.was_asked(&[AAAA, A]);
}

#[test]
fn an_unwilling_server_hands_over_to_another() {
    let unwilling = Upstream::saying(&[(AAAA, rcode::REFUSED, &[]), (A, rcode::SERVFAIL, &[])]);
    let willing = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::start(&config_text(&[unwilling.address, willing.address], "cache.size_mib = 0"));
    for _ in 0..20 {
        server.ask(AAAA).is(0, &[SYNTHESIZED]);
    }
}

/// A name whose servers do not answer says nothing about the resolver.
#[test]
fn a_name_without_answer_does_not_condemn_the_server() {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    for n in 0..5 {
        upstream.is_silent_on(&format!("n{n}.example.net AAAA"));
        upstream.is_silent_on(&format!("n{n}.example.net A"));
    }
    let server = Server::before(&upstream, "upstream.timeout_ms = 200\ncache.size_mib = 0");
    for n in 0..5 {
        server.ask(&format!("n{n}.example.net A")).is(rcode::SERVFAIL, &[]);
        server.ask(AAAA).is(0, &[SYNTHESIZED]);
    }
}
