//! Which messages are taken for the answer to a query, and how hard they are to forge (RFC 5452).

use crate::support::reply;
use crate::talk::{ClientQuery, Talk, TryTransport, settings, settings_with};
use crate::{A, A_RECORD, one_in_flight};

#[test]
fn forged_answers_are_ignored_and_the_true_one_is_taken() {
    let (mut talk, asked) = one_in_flight(settings());
    let (id, TryTransport::Udp { socket }) = (asked.id(), asked.way) else { panic!() };
    let elsewhere =
        |upstream, socket| ClientQuery { upstream, way: TryTransport::Udp { socket }, ..asked.clone() };
    talk.server_sends(&asked, &reply(id.wrapping_add(1), "www.example.org A", 0, &[]));
    talk.server_sends(&elsewhere(0, (socket + 1) % 64), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&elsewhere(0, 99), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&elsewhere(7, socket), &reply(id, A, 0, &[A_RECORD]));
    talk.server_sends(&asked, &[0; 3]);
    assert_eq!(talk.machine.stats().upstream_unexpected, 5);
    talk.server_sends(&asked, &reply(id, "www.example.org A", 0, &[A_RECORD]));
    talk.server_sends(&asked, &reply(id, "www.example.com AAAA", 0, &[]));
    assert_eq!(talk.machine.stats().upstream_mismatched, 2);
    talk.silent();
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.replies(&asked, 0, &[A_RECORD]);
    assert_eq!(talk.machine.stats().upstream_unexpected, 6, "a duplicate");
    talk.over();
}

#[test]
fn a_query_sent_back_or_an_answer_without_question_is_no_answer() {
    let (mut talk, asked) = one_in_flight(settings());
    talk.server_sends(&asked, &asked.octets.clone());
    talk.server_sends(&asked, &[&asked.id().to_be_bytes()[..], &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat());
    talk.silent();
    assert_eq!(talk.machine.stats().upstream_mismatched, 2);
    assert_eq!(talk.machine.in_flight(), 1);
}

#[test]
fn repeated_mismatches_lead_to_stream() {
    let (mut talk, asked) = one_in_flight(settings());
    for _ in 0..3 {
        talk.server_sends(&asked, &reply(asked.id(), "www.example.org A", 0, &[A_RECORD]));
    }
    let over_stream = talk.asked(A);
    assert!(matches!(over_stream.way, TryTransport::Stream { .. }));
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.silent();
    talk.replies(&over_stream, 0, &[A_RECORD]);
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// It is forged, or the server does not keep spellings: the stream, where no spelling is needed, tells.
#[test]
fn an_answer_in_another_spelling_leads_to_a_stream_where_spelling_was_drawn() {
    let mut talk = Talk::new(settings());
    talk.keeps_spellings();
    talk.client_asks(A);
    let asked = talk.asked(A);
    assert_ne!(asked.question().name.to_string(), "www.example.com.", "13 letters, drawn with a fixed seed");
    talk.server_sends(&asked, &reply(asked.id(), A, 0, &["an www.example.com 300 A 192.0.2.66"]));
    assert_eq!(talk.machine.stats().upstream_mismatched, 1);
    let over_stream = talk.asked(A);
    assert!(over_stream.is_stream() && talk.sent.answers.is_empty());
    talk.replies(&asked, 0, &[A_RECORD]);
    talk.silent();
    talk.server_sends(&over_stream, &reply(over_stream.id(), A, 0, &[A_RECORD]));
    talk.answered(A, 0, &[A_RECORD]);
    talk.over();
}

/// A pointer in the question can only lead into the header. This client asked for a name that the header, the
/// pointer and what follows happen to spell, and the name is longer than the whole answer.
#[test]
fn a_question_compressed_into_the_header_is_a_mismatch() {
    let mut talk = Talk::new(settings());
    let name = [&[1, 0][..], &[10], &[0, 0, 0, 0, 0xc0, 5, 0, 1, 0, 1], &[0]].concat();
    let question = [&name[..], &[0, 1, 0, 1]].concat();
    talk.client_sends(&[&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &question].concat());
    let sent = talk.sent.queries.pop_front().unwrap();
    let head = [&sent.id().to_be_bytes()[..], &[0x81, 0x80, 0]].concat();
    talk.server_sends(&sent, &[&head[..], &name].concat());
    assert_eq!(talk.machine.stats().upstream_mismatched, 1);
    talk.silent();
}

#[test]
fn ids_in_flight_on_one_socket_are_unique() {
    let mut talk =
        Talk::new(settings_with(|settings| (settings.in_flight, settings.asking.ports) = (65_535, 1)));
    let mut seen = std::collections::HashSet::new();
    for number in 0..20_000 {
        let words = format!("{number}.example A");
        talk.client_asks(&words);
        assert!(seen.insert(talk.asked(&words).id()));
    }
    assert_eq!(talk.machine.in_flight(), 20_000);
}

#[test]
fn ids_and_ports_cannot_be_foretold_from_the_ones_before() {
    let draw = |seed| {
        let mut talk = Talk::seeded(settings(), 0, seed);
        let one = |number| {
            let words = format!("{number}.example A");
            talk.client_asks(&words);
            let asked = talk.asked(&words);
            // Questions of one moment share a port.
            talk.now_ns += 1_000_000;
            (asked.id(), asked.way)
        };
        (0..64).map(one).collect::<Vec<(u16, TryTransport)>>()
    };
    assert_eq!(draw([1; 32]), draw([1; 32]), "a simulation repeats itself");
    assert_ne!(draw([1; 32]), draw([2; 32]));
    let ports: std::collections::HashSet<_> =
        draw([3; 32]).iter().map(|(_, way)| format!("{way:?}")).collect();
    assert!(ports.len() > 8, "{}", ports.len());
}
