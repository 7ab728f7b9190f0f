//! The form of answers: size, OPT record, flags.

use dns64::wire::{Header, Message, option_code, rcode};
use server_core::client::StreamKind;

use crate::support::{lines, query, reply};
use crate::talk::{
    S, Talk, extended_errors, option, query_with_options, settings, settings_with, stream_client,
};
use crate::{A, A_RECORD, AAAA};

#[test]
fn answers_respect_the_size_that_the_client_announced() {
    let many: Vec<String> = (0..80).map(|n| format!("an www.example.com 60 A 192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    // Each record takes 16 octets, header and question 33, OPT 11.
    for edns in [None, Some(512), Some(100), Some(1300)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns.map(|size| (size, false))));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, &many);
        let answer = talk.answer();
        let message = Message::parse(&answer).unwrap();
        assert!(message.header.has(Header::TC), "{edns:?}");
        assert_eq!(message.header.counts[1], 0);
        assert_eq!(message.edns().unwrap().is_some(), edns.is_some());
        talk.over();
    }
    for (edns, records) in [(Some(1232), 74), (Some(100), 29), (None, 29)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns.map(|size| (size, false))));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, &many[..records]);
        assert_eq!(lines(&talk.answer()).len(), records + usize::from(edns.is_some()), "{edns:?}");
    }
}

#[test]
fn tcp_clients_get_everything() {
    let many: Vec<String> =
        (0..2000).map(|n| format!("an www.example.com 60 A 192.0.{}.{}", n / 250, n % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut talk = Talk::new(settings());
    talk.sends(stream_client(9, StreamKind::Tcp), &query(0x1234, AAAA, None));
    let asked = talk.asked(AAAA);
    talk.replies(&asked, 0, &[]);
    let asked = talk.asked(A);
    talk.replies(&asked, 0, &many);
    let answer = talk.answer();
    assert_eq!(lines(&answer).len(), 2000);
    talk.over();
}

#[test]
fn the_opt_record_of_the_server_is_replaced_by_ours() {
    let after_opt = "ar ns.example.com 60 A 192.0.2.53";
    let ns = "ns example.com 60 NS ns.example.com";
    for (edns, records, expected) in [
        (None, &[A_RECORD, "opt"][..], &[A_RECORD][..]),
        (None, &[A_RECORD, ns, "opt", after_opt], &[A_RECORD, ns, after_opt]),
        (None, &[A_RECORD, ns, after_opt, "opt 00 0f 00 02 00 12"], &[A_RECORD, ns, after_opt]),
        (Some((4096, false)), &[A_RECORD], &[A_RECORD, "opt 1232"]),
        (Some((4096, false)), &[A_RECORD, "opt"], &[A_RECORD, "opt 1232"]),
        (Some((4096, true)), &[A_RECORD, ns, "opt", after_opt], &[A_RECORD, ns, after_opt, "opt 1232"]),
    ] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns));
        let asked = talk.asked(A);
        talk.replies(&asked, 0, records);
        let answer = talk.answer();
        assert_eq!(lines(&answer), expected);
        let ours = Message::parse(&answer).unwrap().edns().unwrap();
        assert_eq!(ours.map(|ours| ours.dnssec_ok), edns.map(|(_, dnssec_ok)| dnssec_ok));
        talk.over();
    }
}

#[test]
fn an_extended_error_reaches_edns_clients_and_is_servfail_for_others() {
    for (edns, expected) in [(None, rcode::SERVFAIL), (Some((1232, false)), 0)] {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns));
        let asked = talk.asked(A);
        let mut octets = reply(asked.id(), A, 0, &["opt"]);
        let extended_at = octets.len() - 6;
        octets[extended_at] = 1;
        talk.server_sends(&asked, &octets);
        let answer = talk.answer();
        assert_eq!(Header::parse(&answer).unwrap().rcode(), expected);
        let extended = Message::parse(&answer).unwrap().edns().unwrap().map(|edns| edns.extended_rcode);
        assert_eq!(extended, edns.map(|_| 1));
        talk.over();
    }
}

/// AD needs a server that is trusted, and a client that says that it understands it (RFC 6840 5.8).
#[test]
fn ad_passes_from_trusted_servers_to_clients_that_know_it() {
    let ad = Header::AD as u8;
    for (trust_ad, flags, edns, expected) in [
        (true, ad, None, true),
        (true, 0, Some((1232, true)), true),
        (true, 0, Some((1232, false)), false),
        (false, ad, Some((1232, true)), false),
    ] {
        let mut talk = Talk::new(settings_with(|settings| settings.upstreams[0].trust_ad = trust_ad));
        let mut octets = query(0x1234, A, edns);
        octets[3] |= flags;
        talk.client_sends(&octets);
        let asked = talk.asked(A);
        assert_eq!(Header::parse(&asked.octets).unwrap().has(Header::AD), trust_ad);
        let mut octets = asked.reply(0, &[A_RECORD]);
        octets[2] |= (Header::AA >> 8) as u8;
        octets[3] |= ad;
        talk.server_sends(&asked, &octets);
        let header = Header::parse(&talk.answer()).unwrap();
        assert_eq!(header.has(Header::AD), expected, "trusted: {trust_ad}, flags {flags}, {edns:?}");
        assert!(!header.has(Header::AA));
        talk.over();
    }
}

/// An answer for a client on this channel that sent these options.
fn answer_with(kind: StreamKind, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut talk = Talk::new(settings());
    talk.sends(stream_client(1, kind), &query_with_options(A, options));
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answer()
}

#[test]
fn the_idle_time_is_told_where_a_connection_has_one() {
    let told = |kind, options: &[(u16, &[u8])]| option(&answer_with(kind, options), option_code::KEEPALIVE);
    for kind in [StreamKind::Tcp, StreamKind::Tls] {
        assert_eq!(told(kind, &[(option_code::KEEPALIVE, &[])]), Some(vec![0, 100]));
    }
    assert_eq!(told(StreamKind::Quic, &[(option_code::KEEPALIVE, &[])]), None);
    assert_eq!(told(StreamKind::Tcp, &[]), None, "not asked for");
}

#[test]
fn encrypted_answers_are_padded_where_the_query_is() {
    for kind in [StreamKind::Tls, StreamKind::Https, StreamKind::Quic] {
        let padded = answer_with(kind, &[(option_code::PADDING, &[0; 9])]);
        assert_eq!(padded.len(), 468);
        assert!(option(&padded, option_code::PADDING).unwrap().iter().all(|&octet| octet == 0));
    }
    let open = answer_with(StreamKind::Tcp, &[(option_code::PADDING, &[0; 9])]);
    assert_eq!(option(&open, option_code::PADDING), None);
    assert_eq!(option(&answer_with(StreamKind::Tls, &[]), option_code::PADDING), None, "not asked for");
}

/// Otherwise they would stand between the last record and our OPT record.
#[test]
fn octets_after_the_last_record_are_cut() {
    for (records, edns) in
        [(&[A_RECORD][..], true), (&[A_RECORD, "opt"], true), (&[A_RECORD], false), (&[], true)]
    {
        let mut talk = Talk::new(settings());
        talk.client_sends(&query(0x1234, A, edns.then_some((1232, false))));
        let asked = talk.asked(A);
        let mut octets = asked.reply(0, records);
        octets.extend([0, 0, 1, 0, 1, 0, 0, 0, 9]);
        talk.server_sends(&asked, &octets);
        let answer = talk.answer();
        let parsed = domain::base::Message::from_octets(&answer[..]).unwrap();
        assert_eq!(parsed.iter().filter(|record| record.is_ok()).count(), lines(&answer).len());
        let expected = usize::from(!records.is_empty()) + usize::from(edns);
        assert_eq!(lines(&answer).len(), expected);
        talk.over();
    }
}

#[test]
fn why_there_is_no_answer_is_said() {
    let mut talk = Talk::new(settings_with(|settings| settings.asking.tries = 1));
    talk.client_sends(&query(0x1234, A, Some((1232, false))));
    talk.asked(A);
    talk.wait(S);
    assert_eq!(extended_errors(&talk.answer()), [22], "no answer");
    talk.client_sends(&query(0x1234, A, Some((1232, false))));
    let asked = talk.asked(A);
    let mut octets = asked.reply(0, &[A_RECORD]);
    octets.pop();
    talk.server_sends(&asked, &octets);
    assert_eq!(extended_errors(&talk.answer()), [24], "nonsense");
    talk.over();
}
