//! A reply on its way through the crate: to evidence, and from there to an answer.

use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Writer};
use proptest::prelude::*;

use crate::evidence::Evidence;
use crate::{Anchors, verdict};

/// A record with an owner of its own and this RDATA.
fn record(rtype: u16, rdata: &[u8]) -> Vec<u8> {
    let mut octets = vec![1, b'w', 0xc0, 12];
    octets.extend([rtype.to_be_bytes(), CLASS_IN.to_be_bytes(), [0, 0], [0, 60]].concat());
    octets.extend((rdata.len() as u16).to_be_bytes());
    octets.extend(rdata);
    octets
}

prop_compose! {
    /// A reply with records of all kinds, most of them nonsense.
    fn replies()(
        counts in prop::array::uniform3(0_u16..4),
        records in prop::collection::vec(
            (prop::sample::select(vec![1_u16, 2, 5, 6, 15, 33, 39, 43, 46, 47, 48, 50]),
             prop::collection::vec(any::<u8>(), 0..60)),
            0..9,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) -> Vec<u8> {
        let question = Question { name: Name::from_text("example").unwrap(), qtype: 1, qclass: CLASS_IN };
        let mut octets = vec![0; 64];
        let length = Writer::new(&mut octets, 1, Header::QR, &question).unwrap().finish();
        octets.truncate(length);
        for (rtype, rdata) in records {
            octets.extend(record(rtype, &rdata));
        }
        octets.extend(tail);
        for (place, count) in counts.into_iter().enumerate() {
            octets[7 + 2 * place] = count as u8;
        }
        octets
    }
}

proptest! {
    /// Evidence is no longer than the reply says, parses, and can be written as an answer.
    #[test]
    fn any_reply_is_evidence_or_malformed(octets in replies(), unix_s in any::<u32>()) {
        let reply = Message::parse(&octets).unwrap();
        if let Ok(evidence) = Evidence::of(&reply, &Anchors::iana(), unix_s) {
            let kept = Message::parse(&evidence.octets).unwrap();
            let records = kept.records().map(Result::unwrap).count();
            prop_assert!(records >= evidence.answers + evidence.proofs + evidence.signatures);
            prop_assert!(records <= reply.records().count());
            let _ = verdict::write(&reply, &evidence, true);
        }
    }
}
