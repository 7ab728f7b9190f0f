//! A server's datagrams past the stack, over veth between network namespaces: the server is the Tester's end.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use net::frame::{Template, may_be_intact};
use net::link::Device;
use net::transport::xdp::{Arrivals, Bypass, BypassRing};
use support::{DEVICE, MACS, PEER, Pair, TESTER, can_run, device, frame_socket, send_frame};

const PORT: u16 = 5300;
/// How long datagrams are waited for; far longer than they need.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing must come.
const QUIET: Duration = Duration::from_millis(200);

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
        let mut bypass = Bypass::open(Device::named(DEVICE).unwrap(), workers, None).unwrap();
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
