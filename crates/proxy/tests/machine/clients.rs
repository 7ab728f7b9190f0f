//! Clients' messages that are answered at once, or not at all.

use dns64::wire::{Header, Message};
use proxy::client::Client;

use crate::support::{lines, query};
use crate::talk::{Talk, settings, udp_client};
use crate::{A, A_RECORD};

#[test]
fn refusals_answer_at_once_and_cost_no_slot() {
    let mut talk = Talk::new(settings());
    let stranger = Client { address: "192.0.2.9:99".parse().unwrap(), ..udp_client() };
    talk.sends(stranger, &query(1, A, Some((4096, true))));
    let answer = talk.answer();
    assert_eq!((Header::parse(&answer).unwrap().rcode(), lines(&answer)), (5, vec!["opt 1232".to_owned()]));
    talk.client_sends(&[0x12, 0x34, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(talk.answer(), [0x12, 0x34, 0xa9, 0x84, 0, 0, 0, 0, 0, 0, 0, 0], "NOTIMP for UPDATE");
    let mut version_1 = query(0x1234, A, Some((4096, false)));
    let version_at = version_1.len() - 5;
    version_1[version_at] = 1;
    talk.client_sends(&version_1);
    let answer = talk.answer();
    assert_eq!(Message::parse(&answer).unwrap().edns().unwrap().unwrap().extended_rcode, 1, "BADVERS");
    talk.over();
    assert_eq!(talk.machine.stats().refused, 3);
}

#[test]
fn recursion_desired_goes_upstream_as_it_is() {
    let mut talk = Talk::new(settings());
    let mut octets = query(0x1234, A, None);
    octets[2] = 0;
    talk.client_sends(&octets);
    let asked = talk.asked(A);
    assert!(!Header::parse(&asked.octets).unwrap().has(Header::RD));
    talk.replies(&asked, 0, &[A_RECORD]);
    assert!(!Header::parse(&talk.answer()).unwrap().has(Header::RD));
}
