//! A server's datagrams past the stack, over veth between network namespaces: the server is the Tester's end.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../../../sys/tests/support/mod.rs"]
mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use daemon::bypass::{Arrivals, Bypass, BypassRing, Repeatable};
use dns64::Range;
use support::{DEVICE, MACS, PEER, Pair, TESTER, can_run, device, frame_socket, send_frame};
use sys::frame::{Template, may_be_intact};
use sys::link::Device;

const PORT: u16 = 5300;
/// How long datagrams are waited for; far longer than they need.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing must come.
const QUIET: Duration = Duration::from_millis(200);
/// No test lasts an hour.
const FAR_NS: u64 = 3_600_000_000_000;

fn ends(port: u16) -> [[SocketAddr; 2]; 2] {
    [0, 1].map(|family| [TESTER, PEER].map(|end| SocketAddr::new(end[family].parse().unwrap(), port)))
}

fn socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What comes to the ring first, within the time.
fn next(ring: &mut BypassRing, within: Duration) -> Option<(SocketAddr, SocketAddr, [u8; 6], Vec<u8>)> {
    let (mut arrivals, until) = (Arrivals::default(), Instant::now() + within);
    while Instant::now() < until {
        ring.receive(&mut arrivals);
        if let Some(one) = arrivals.iter().next() {
            return Some((one.source, one.destination, one.mac, one.octets.to_vec()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    let (octets, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..octets].to_vec(), from)
}

/// The program on the Tester's device as worker 0 of `workers`, with the ring of its only queue.
fn open(pair: &Pair, workers: usize) -> (Bypass, BypassRing) {
    pair.tester(|| {
        let mut bypass = Bypass::open(Device::named(DEVICE).unwrap(), workers, None, true).unwrap();
        assert_eq!((bypass.queues(), bypass.device().name.as_str()), (1, DEVICE));
        let ring = bypass.ring(0).unwrap();
        (bypass, ring)
    })
}

#[test]
fn queries_to_listeners_come_by_the_ring_and_are_answered_from_it() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (bypass, mut ring) = open(&pair, 1);
    for [ours, theirs] in ends(PORT) {
        let held = pair.tester(|| socket(ours));
        let client = pair.peer(|| socket(theirs));
        // Nothing is taken yet.
        client.send_to(b"early", ours).unwrap();
        assert_eq!(receive(&held), (b"early".to_vec(), theirs));

        assert_eq!(bypass.table().set_listeners(&[ours, "[fe80::1]:53".parse().unwrap()]), [ours]);
        client.send_to(b"query", ours).unwrap();
        let (from, to, mac, octets) = next(&mut ring, PATIENCE).unwrap();
        assert_eq!((from, to, mac, &octets[..]), (theirs, ours, MACS[1], &b"query"[..]));
        let template = ring.template(mac, ours, theirs).unwrap();
        assert!(ring.has_room() && ring.holds(&template, 1400) && !ring.holds(&template, 1500));
        assert!(ring.send(&template, 6, |buffer| {
            buffer.copy_from_slice(b"answer");
            6
        }));
        ring.flush().unwrap();
        assert_eq!(receive(&client), (b"answer".to_vec(), ours));

        // Another port is somebody else's.
        let other = SocketAddr::new(ours.ip(), PORT + 1);
        let elsewhere = pair.tester(|| socket(other));
        client.send_to(b"other", other).unwrap();
        assert_eq!(receive(&elsewhere), (b"other".to_vec(), theirs));

        assert_eq!(bypass.table().set_listeners(&[]), []);
        client.send_to(b"late", ours).unwrap();
        assert_eq!(receive(&held), (b"late".to_vec(), theirs));
        held.set_nonblocking(true).unwrap();
        held.recv(&mut [0; 9]).unwrap_err();
    }
    let counters = bypass.counters();
    assert_eq!((counters.taken, counters.wrong_queue, ring.drops()), (2, 0, 0));
}

#[test]
fn answers_come_by_the_ring_of_the_worker_that_asked_and_else_to_the_socket() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (bypass, mut ring) = open(&pair, 2);
    for [ours, theirs] in ends(PORT) {
        let asking = pair.tester(|| {
            let socket = socket(ours);
            socket.connect(theirs).unwrap();
            socket
        });
        let server = pair.peer(|| socket(theirs));
        let stranger = pair.peer(|| socket(SocketAddr::new(theirs.ip(), PORT + 1)));
        let claim = bypass.table().claim(0, theirs, ours.ip(), &[PORT]).unwrap();
        stranger.send_to(b"forged", ours).unwrap();
        server.send_to(b"answer", ours).unwrap();
        let (from, to, _, octets) = next(&mut ring, PATIENCE).unwrap();
        assert_eq!((from, to, &octets[..]), (theirs, ours, &b"answer"[..]));
        assert!(next(&mut ring, QUIET).is_none(), "what others send is the stack's");

        // A second claim of the same socket outlives the first; the other worker's answers are the socket's.
        let again = bypass.table().claim(0, theirs, ours.ip(), &[PORT]).unwrap();
        let _other = bypass.table().claim(1, theirs, ours.ip(), &[PORT + 2]).unwrap();
        let others = pair.tester(|| socket(SocketAddr::new(ours.ip(), PORT + 2)));
        server.send_to(b"other's", others.local_addr().unwrap()).unwrap();
        assert_eq!(receive(&others), (b"other's".to_vec(), theirs));
        drop((claim, again));
        server.send_to(b"later", ours).unwrap();
        assert_eq!(receive(&asking), (b"later".to_vec(), theirs));
    }
}

#[test]
fn damaged_frames_are_dropped_as_the_stack_drops_them() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (bypass, mut ring) = open(&pair, 1);
    let [[ours, theirs], _] = ends(PORT);
    bypass.table().set_listeners(&[ours]);
    let template = Template::new(MACS[1], MACS[0], theirs, ours).unwrap();
    let mut frame = [0; 100];
    let octets = template.complete(&mut frame, 20);
    let (mut damaged, mut sent) = (frame, 0);
    damaged[octets - 1] ^= 4;
    assert!(!may_be_intact(&damaged[..octets]));
    pair.peer(|| {
        let (socket, device) = (frame_socket(), device());
        for frame in [damaged, frame] {
            send_frame(&socket, device, &frame[..octets]);
            sent += 1;
        }
    });
    let mut arrivals = Arrivals::default();
    let until = Instant::now() + PATIENCE;
    let (mut frames, mut good) = (0, 0);
    while frames < sent && Instant::now() < until {
        frames += ring.receive(&mut arrivals);
        good += arrivals.iter().count();
    }
    assert_eq!((frames, good, arrivals.damaged()), (2, 1, 1));
}

/// A query for AAAA with a plain OPT record, and an answer of 30 octets more.
fn conversation(id: u16, name: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut query = id.to_be_bytes().to_vec();
    query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    query.extend_from_slice(name);
    query.extend_from_slice(&[0, 28, 0, 1]);
    let mut answer = query.clone();
    (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
    query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    answer.extend(1..=41);
    (query, answer)
}

/// An answer that lives a fifth of a second, and another in its place.
fn is_repeated_until_its_time_is_over(
    ring: &mut BypassRing,
    client: &UdpSocket,
    ours: SocketAddr,
    class: u8,
    epoch: u64,
) {
    let (query, answer) = conversation(9, b"\x05short\x04life\x00");
    let (asked, wanted) = conversation(10, b"\x05short\x04life\x00");
    let until_ns = sys::clock::monotonic_ns() + 200_000_000;
    let repeatable = Repeatable { query: &query, answer: &answer, until_ns, epoch, class };
    assert!(ring.remember(sys::clock::monotonic_ns(), &repeatable));
    client.send_to(&asked, ours).unwrap();
    assert_eq!(receive(client), (wanted.clone(), ours));
    std::thread::sleep(Duration::from_millis(250));
    client.send_to(&asked, ours).unwrap();
    assert_eq!(next(ring, PATIENCE).unwrap().3, asked);
    // Its place is free again.
    let far_ns = sys::clock::monotonic_ns() + FAR_NS;
    assert!(ring.remember(sys::clock::monotonic_ns(), &Repeatable { until_ns: far_ns, ..repeatable }));
    client.send_to(&asked, ours).unwrap();
    assert_eq!(receive(client), (wanted, ours));
}

#[test]
fn an_answer_is_repeated_to_the_same_question_until_its_time_is_over() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (unheard, _) = open(&pair, 1);
    assert!(matches!(unheard.repeats_not(), Some(sys::bpf::BpfError::Unheard { .. })));
    drop(unheard);
    // A veth takes frames of programs if its peer has one, too.
    let _heard = pair.peer(|| sys::bpf::attach_pass(device(), None).unwrap());
    let (bypass, mut ring) = open(&pair, 1);
    assert!(bypass.repeats_not().is_none(), "{:?}", bypass.repeats_not());
    let table = bypass.table();
    let range = |text: &str| text.parse::<Range>().unwrap();
    let networks = [("198.18.0.0/30", 0), ("2001:2::/48", 5)];
    for ([ours, theirs], (network, class)) in ends(PORT).into_iter().zip(networks) {
        let client = pair.peer(|| socket(theirs));
        table.set_listeners(&[ours]);
        let (query, answer) = conversation(7, b"\x03www\x07example\x00");
        let far_ns = sys::clock::monotonic_ns() + FAR_NS;
        let remember = |until_ns, epoch| {
            let repeatable = Repeatable { query: &query, answer: &answer, until_ns, epoch, class };
            ring.remember(sys::clock::monotonic_ns(), &repeatable)
        };
        assert!(remember(far_ns, 3), "what was made in another epoch does no harm");
        assert!(table.repeat_to(&[range(network)], 4 + u64::from(class)));
        assert!(remember(far_ns, table.epoch()) && !remember(far_ns, table.epoch()), "once is enough");

        // Another ID, another spelling: both come back.
        let (asked, wanted) = conversation(0x1234, b"\x03WwW\x07eXample\x00");
        client.send_to(&asked, ours).unwrap();
        assert_eq!(receive(&client), (wanted, ours));
        assert_eq!(table.given(0)[usize::from(class)], 1);

        // Another flag, another name, another type: for the server.
        for at in [3, 14, 26] {
            let mut other = asked.clone();
            other[at] ^= 0x10;
            client.send_to(&other, ours).unwrap();
            assert_eq!(next(&mut ring, PATIENCE).unwrap().3, other);
        }
        // A client that may not ask.
        assert!(table.repeat_to(&[range("192.0.2.0/24")], table.epoch()));
        client.send_to(&asked, ours).unwrap();
        assert_eq!(next(&mut ring, PATIENCE).unwrap().3, asked);
        // Another epoch, and none.
        assert!(table.repeat_to(&[range("0.0.0.0/0"), range("::/0")], 99));
        client.send_to(&asked, ours).unwrap();
        assert_eq!(next(&mut ring, PATIENCE).unwrap().3, asked);
        table.stop_repeating();
        assert!(table.epoch() == 0 && ring.epoch() == 0);
        client.send_to(&asked, ours).unwrap();
        assert_eq!(next(&mut ring, PATIENCE).unwrap().3, asked);

        let epoch = 100 + u64::from(class);
        assert!(table.repeat_to(&[range("0.0.0.0/0"), range("::/0")], epoch));
        is_repeated_until_its_time_is_over(&mut ring, &client, ours, class, epoch);
        table.stop_repeating();
    }
    assert_eq!(table.given(0).iter().sum::<u64>(), 6);
    let many = vec![range("::/0"); daemon::bypass::RANGES_MAX + 1];
    assert!(!table.repeat_to(&many, 7) && table.epoch() == 0);
}
