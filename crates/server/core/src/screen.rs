//! Policy: which messages of clients become queries, and how the others are answered.

use dns64::rewrite::ClientQuery;
use dns64::wire::{CLASS_IN, Edns, Header, Message, Question, rcode, rtype};
use dns64::wire::{Options, option_code};

use crate::client::{Client, ClientEdns, Query};
use crate::ede::code;
use crate::settings::Settings;

/// What becomes of a client's message.
#[derive(Debug)]
pub enum Verdict<'m> {
    /// Nothing: it must not be answered.
    Drop,
    /// Its sender may not ask; [`refuse_stranger`] makes the error, which few are sent.
    Stranger(Header),
    /// It is answered at once with an error.
    Refuse(Refusal),
    /// It is a query.
    Take {
        /// The query. Its cookie is still to be judged.
        query: Query,
        /// Its COOKIE option.
        cookie: Option<&'m [u8]>,
    },
}

/// An error for a message that does not become a query.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The header of the message.
    pub header: Header,
    /// Its question, if it could be read.
    pub question: Option<Question>,
    /// The RCODE, with its upper bits.
    pub rcode: u16,
    /// The message had an OPT record, so the error needs one (RFC 6891 6.1.1).
    pub edns: bool,
    /// Why, as an extended error (RFC 8914).
    pub extended_error: Option<u16>,
}

/// Types of questions that no record has: OPT, and 128 to 255 without ANY (RFC 6895 3.1).
fn is_meta(qtype: u16) -> bool {
    matches!(qtype, rtype::OPT | 128..=254)
}

/// The type by which compact denials say that a name does not exist (RFC 9824 3.1).
const NXNAME: u16 = 128;

/// Judges a message, in this order:
///
/// 1. shorter than a header, an answer (QR), from port 0, or a datagram from one of our own upstream sockets:
///    dropped. A stream has ports of its own: the same number is somebody else's there;
/// 2. from an address outside the allow-list: REFUSED, or dropped. Nothing of the message but its header is
///    read before that is known;
/// 3. an opcode other than QUERY: NOTIMP (RFC 1035 4.1.1);
/// 4. no or several questions (RFC 9619), octets that cannot be read, several OPT records (RFC 6891 6.1.1):
///    FORMERR;
/// 5. an EDNS version above 0: BADVERS (RFC 6891 6.1.3);
/// 6. a class other than IN: REFUSED. The identity of upstream servers (`version.bind` of CHAOS) is not for
///    clients, and no other class has zones;
/// 7. NXNAME: FORMERR (RFC 9824 3.1). Other types that no record has, such as zone transfers (RFC 5936
///    2.2.1), mailboxes (RFC 1035 3.2.3) and TKEY (RFC 2930): NOTIMP;
/// 8. no RD: REFUSED (RFC 8914 4.21). Nothing of our own could be said but what the cache happens to hold,
///    which tells what others asked.
///
/// So all questions that are asked upstream are plain look-ups, whose replies are shared and kept.
pub fn screen<'m>(settings: &Settings, client: &Client, message: &'m [u8]) -> Verdict<'m> {
    let Ok(header) = Header::parse(message) else { return Verdict::Drop };
    let from = client.address;
    let is_own = client.channel.is_udp() && settings.own_sockets.contains(from);
    // Answers and our own queries would be answered for ever; port 0 cannot be sent to.
    if header.has(Header::QR) || from.port() == 0 || is_own {
        return Verdict::Drop;
    }
    if !settings.allows(from.ip()) {
        return Verdict::Stranger(header);
    }
    let parsed = Message::parse(message);
    let edns = parsed.as_ref().map(Message::edns);
    let refuse = |rcode: u16, extended_error: Option<u16>| {
        Verdict::Refuse(Refusal {
            header,
            question: parsed.as_ref().ok().map(|message| message.question()),
            rcode,
            edns: matches!(edns, Ok(Ok(Some(_)))),
            extended_error,
        })
    };
    if header.opcode() != 0 {
        return refuse(rcode::NOTIMP.into(), None);
    }
    let (Ok(parsed), Ok(Ok(edns))) = (&parsed, &edns) else { return refuse(rcode::FORMERR.into(), None) };
    if edns.is_some_and(|edns| edns.version > 0) {
        return refuse(rcode::BADVERS, None);
    }
    match unanswerable(parsed) {
        Some((rcode, extended_error)) => refuse(rcode.into(), Some(extended_error)),
        None => take(parsed, *edns),
    }
}

/// The error for a message of a client that may not ask.
pub fn refuse_stranger(header: Header, message: &[u8]) -> Refusal {
    let parsed = Message::parse(message).ok();
    Refusal {
        header,
        question: parsed.map(|message| message.question()),
        rcode: rcode::REFUSED.into(),
        edns: parsed.is_some_and(|message| matches!(message.edns(), Ok(Some(_)))),
        extended_error: Some(code::PROHIBITED),
    }
}

/// The RCODE and the extended error for a question that no forwarder answers.
fn unanswerable(message: &Message<'_>) -> Option<(u8, u16)> {
    match message.qtype {
        _ if message.qclass != CLASS_IN => Some((rcode::REFUSED, code::NOT_SUPPORTED)),
        NXNAME => Some((rcode::FORMERR, code::INVALID_QUERY_TYPE)),
        qtype if is_meta(qtype) => Some((rcode::NOTIMP, code::NOT_SUPPORTED)),
        _ if !message.header.has(Header::RD) => Some((rcode::REFUSED, code::NOT_AUTHORITATIVE)),
        _ => None,
    }
}

fn take<'m>(message: &Message<'m>, edns: Option<Edns>) -> Verdict<'m> {
    let header = message.header;
    let options = if edns.is_some() { Options::of(message) } else { Options::new(&[]) };
    let dnssec_ok = edns.is_some_and(|edns| edns.dnssec_ok);
    let query = Query {
        asked: ClientQuery {
            id: header.id,
            question: message.question(),
            recursion_desired: header.has(Header::RD),
            checking_disabled: header.has(Header::CD),
            dnssec_ok,
        },
        wants_ad: dnssec_ok || header.has(Header::AD),
        edns: edns.map(|edns| ClientEdns {
            payload_octets: edns.payload_octets,
            cookie: None,
            keepalive: options.find(option_code::KEEPALIVE).is_some(),
            padding: options.find(option_code::PADDING).is_some(),
        }),
    };
    Verdict::Take { query, cookie: options.find(option_code::COOKIE) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use dns64::wire::{Name, Writer};

    use crate::client::{Channel, StreamKind};

    const LOOPBACK: &str = "[::1]:5300";

    fn query(flags: u16, qtype: u16, edns_versions: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; 512];
        let question = Question { name: Name::from_text("www.example").unwrap(), qtype, qclass: CLASS_IN };
        let mut writer = Writer::new(&mut buffer, 7, flags, &question).unwrap();
        for &version in edns_versions {
            writer
                .edns(&Edns { payload_octets: 4096, extended_rcode: 0, version, dnssec_ok: true }, &[])
                .unwrap();
        }
        let length = writer.finish();
        buffer.truncate(length);
        buffer
    }

    fn judge<'m>(from: &str, message: &'m [u8]) -> Verdict<'m> {
        judge_by(Channel::Udp { socket: 0, local: None }, from, message)
    }

    fn judge_by<'m>(channel: Channel, from: &str, message: &'m [u8]) -> Verdict<'m> {
        let own_sockets = Arc::new(["[::1]:999".parse().unwrap()].into_iter().collect());
        let client = Client { address: from.parse().unwrap(), listener: 0, channel };
        screen(&Settings { own_sockets, ..Settings::default() }, &client, message)
    }

    fn rcode_for(from: &str, message: &[u8]) -> u16 {
        match judge(from, message) {
            Verdict::Refuse(refusal) => refusal.rcode,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_query_is_taken_with_its_flags() {
        let message = query(Header::RD | Header::CD, rtype::AAAA, &[0]);
        let Verdict::Take { query: taken, cookie: None } = judge(LOOPBACK, &message) else { panic!() };
        assert_eq!((taken.asked.id, taken.edns.unwrap().payload_octets), (7, 4096));
        assert!(taken.asked.recursion_desired && taken.asked.checking_disabled && taken.asked.dnssec_ok);
        assert!(taken.wants_ad, "DO says it too");
        let plain = query(Header::RD, 65, &[]);
        let Verdict::Take { query: taken, .. } = judge(LOOPBACK, &plain) else { panic!() };
        assert!(taken.edns.is_none() && !taken.wants_ad);
    }

    #[test]
    fn what_must_not_be_answered_is_dropped() {
        for (from, message) in [
            (LOOPBACK, query(Header::QR, rtype::A, &[])),
            ("192.0.2.1:5300", query(Header::QR, rtype::A, &[])),
            (LOOPBACK, vec![0; 11]),
            (LOOPBACK, vec![]),
            ("[::1]:0", query(0, rtype::A, &[])),
            ("[::1]:999", query(0, rtype::A, &[])),
        ] {
            assert!(matches!(judge(from, &message), Verdict::Drop), "{from} {message:02x?}");
        }
    }

    #[test]
    fn the_port_of_an_own_socket_is_free_for_the_streams_of_others() {
        let message = query(Header::RD, rtype::A, &[]);
        for kind in [StreamKind::Tcp, StreamKind::Tls, StreamKind::Https, StreamKind::Quic] {
            let channel = Channel::Stream { token: 1, kind };
            assert!(matches!(judge_by(channel, "[::1]:999", &message), Verdict::Take { .. }), "{kind:?}");
        }
        assert!(matches!(judge("[::1]:999", &message), Verdict::Drop));
    }

    #[test]
    fn strangers_are_refused_and_neighbours_are_not() {
        let message = query(Header::RD, rtype::A, &[0]);
        for stranger in ["192.0.2.1:5300", "[2001:db8::1]:5300", "[::ffff:192.0.2.1]:5300"] {
            let Verdict::Stranger(header) = judge(stranger, &message) else { panic!("{stranger}") };
            let refusal = refuse_stranger(header, &message);
            assert_eq!(refusal.rcode, 5);
            assert!(refusal.edns && refusal.question.is_some());
        }
        for neighbour in ["127.0.0.1:1", "10.1.2.3:1", "[fe80::1]:1", "[fd00::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(matches!(judge(neighbour, &message), Verdict::Take { .. }), "{neighbour}");
        }
    }

    #[test]
    fn attack_strangers_cost_a_look_at_their_address() {
        let message = query(Header::RD, rtype::A, &[0]);
        let steps = |from| dns64::steps::of(|| _ = judge(from, &message));
        assert_eq!(steps("192.0.2.1:5300"), 0, "the message is not read");
        assert!(steps(LOOPBACK) > 0);
    }

    #[test]
    fn each_fault_has_its_rcode() {
        assert_eq!(rcode_for(LOOPBACK, &query(4 << 11, rtype::A, &[])), 4, "NOTIFY");
        assert_eq!(rcode_for(LOOPBACK, &query(0, rtype::A, &[1])), 16, "EDNS version 1");
        assert_eq!(rcode_for(LOOPBACK, &query(0, rtype::A, &[0, 0])), 1, "two OPT records");
        let mut chaos = query(Header::RD, rtype::TXT, &[]);
        *chaos.last_mut().unwrap() = 3;
        assert_eq!(rcode_for(LOOPBACK, &chaos), 5, "class CH");
        assert_eq!(rcode_for(LOOPBACK, &query(0, rtype::A, &[])), 5, "no RD");
        for qtype in (129..255).chain([rtype::OPT]) {
            assert_eq!(rcode_for(LOOPBACK, &query(Header::RD, qtype, &[])), 4, "type {qtype}");
        }
        assert_eq!(rcode_for(LOOPBACK, &query(Header::RD, NXNAME, &[])), 1, "NXNAME");
        for qtype in [127, rtype::ANY, 256, 65_535] {
            let message = query(Header::RD, qtype, &[]);
            assert!(matches!(judge(LOOPBACK, &message), Verdict::Take { .. }), "type {qtype}");
        }
        assert_eq!(rcode_for(LOOPBACK, &[0; 12]), 1, "no question");
        let mut several = query(0, rtype::A, &[]);
        several[5] = 2;
        assert_eq!(rcode_for(LOOPBACK, &several), 1, "two questions");
        let whole = query(0, rtype::A, &[0]);
        for length in 12..whole.len() {
            assert_eq!(rcode_for(LOOPBACK, &whole[..length]), 1, "cut at {length}");
        }
    }
}
