//! What must come of a frame: the answer function's octets, or nothing. Shared with the fuzz target of the
//! program.

use authdns::kernel_program::Answerer;
use authdns::{ANSWER_OCTETS_MAX, Transport, Zone};
use sys::frame::QueryFrame;

/// The values of `enum xdp_action` (linux/bpf.h) that the program may return.
pub const XDP_PASS: u32 = 2;
pub const XDP_TX: u32 = 3;

/// Runs the program on a frame. It must leave the frame as it is, or make the answer of it that the zone
/// gives to its datagram, with right headers and checksums; returns whether it did.
pub fn answers_rightly_or_passes(zone: &Zone, program: &Answerer, frame: &[u8]) -> bool {
    let run = program.run(frame).expect("the kernel takes the frame");
    if run.action == XDP_PASS {
        assert_eq!(run.frame, frame, "a frame that passes is as it was");
        return false;
    }
    assert_eq!(run.action, XDP_TX);
    let asked = QueryFrame::parse(frame).expect("only datagrams are answered");
    let mut answer = [0; 128 + ANSWER_OCTETS_MAX];
    let place = &mut answer[asked.payload_offset()..];
    let octets = zone.respond(asked.datagram.payload, Transport::Udp, place);
    assert!(octets > 0, "the zone drops this");
    let length = asked.complete(&mut answer, octets);
    assert_eq!(run.frame, answer[..length]);
    true
}
