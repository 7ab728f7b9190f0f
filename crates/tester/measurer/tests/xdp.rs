//! The AF_XDP back-end against an echo server, over veth between network namespaces.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../../../sys/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dns64::wire::Name;
use engine::pacer::Model;
use engine::workload::{Variation, Workload, WorkloadSpec};
use measurer::live::Live;
use measurer::transport::xdp::{XdpConfig, XdpDevice, XdpError, XdpTransport};
use measurer::transport::{self, Backend, Transport, UdpConfig};
use measurer::{Plan, measure};
use support::{PEER, Pair, TESTER, can_run, device, ip};
use sys::bpf::{self, BpfError, Mode};
use sys::clock;
use sys::udp::{Options, ReceiveBatch, SendBatch};

const PORT: u16 = 5300;
/// How long answers are waited for; far longer than they need.
const PATIENCE: Duration = Duration::from_secs(10);

fn server(v6: bool) -> SocketAddr {
    SocketAddr::new(PEER[usize::from(v6)].parse().unwrap(), PORT)
}

/// Runs `work` in the Tester's namespace while every datagram to `server` is sent back. Returns what `work`
/// does, and how many datagrams came: a kernel takes them with right checksums only.
fn with_echo<T: Send>(pair: &Pair, server: SocketAddr, work: impl FnOnce() -> T + Send) -> (T, u64) {
    with_responder(pair, server, |_| {}, work)
}

/// The same with answers that `answer` makes from what came.
fn with_responder<T: Send>(
    pair: &Pair,
    server: SocketAddr,
    answer: fn(&mut [u8]),
    work: impl FnOnce() -> T + Send,
) -> (T, u64) {
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let options = Options { receive_buffer_octets: 4 << 20, ..Options::default() };
    let socket = pair.peer(|| sys::udp::UdpSocket::bind(server, &options).unwrap());
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut incoming, mut outgoing) = (ReceiveBatch::new(32, 2048), SendBatch::new(32, 2048));
            while !stop.load(Ordering::Relaxed) {
                if incoming.receive(&socket).unwrap() == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
                for datagram in incoming.iter() {
                    seen.fetch_add(1, Ordering::Relaxed);
                    outgoing.push(Some(datagram.from), None, |buffer| {
                        let octets = &mut buffer[..datagram.octets.len()];
                        octets.copy_from_slice(datagram.octets);
                        answer(octets);
                        octets.len()
                    });
                }
                outgoing.flush(&socket);
            }
        });
        // Stops the echo even if `work` panics.
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        pair.tester(work)
    });
    (done, seen.into_inner())
}

/// Sends `count` numbered datagrams, of lengths even and odd, with all sockets in turn. Returns the sockets
/// they left by.
fn send(transport: &mut XdpTransport, sockets: usize, first: u64, count: u64) -> BTreeMap<u64, usize> {
    let mut sent = BTreeMap::new();
    let mut number = first;
    while number < first + count {
        let socket = number as usize % sockets;
        let batch = (first + count - number).min(5);
        let result = transport.send(socket, batch as usize, &mut |buffer| {
            let octets = 8 + number as usize % 90;
            buffer[..octets].fill(number as u8);
            buffer[..8].copy_from_slice(&number.to_be_bytes());
            sent.insert(number, socket);
            number += 1;
            octets
        });
        assert_eq!(result.failed, 0, "{:?}", result.error);
        std::thread::sleep(Duration::from_micros(300));
    }
    sent
}

/// Receives until `expected` answers are there or the patience is over; each must be whole, timely, and at
/// its socket.
fn receive(
    transport: &mut XdpTransport,
    sent: &BTreeMap<u64, usize>,
    since_ns: u64,
    expected: usize,
) -> usize {
    let until = Instant::now() + PATIENCE;
    let mut answered = BTreeMap::new();
    while answered.len() < expected && Instant::now() < until {
        transport
            .receive(&mut |at_ns, socket, octets| {
                assert!((since_ns..=clock::monotonic_ns()).contains(&at_ns));
                let number = u64::from_be_bytes(*octets.first_chunk().unwrap());
                assert_eq!(octets.len(), 8 + number as usize % 90);
                assert!(octets[8..].iter().all(|&octet| octet == number as u8));
                assert_eq!(sent.get(&number), Some(&socket));
                assert_eq!(answered.insert(number, socket), None, "{number} came twice");
                true
            })
            .unwrap();
        transport.wait(1_000_000).unwrap();
    }
    answered.len()
}

/// All lanes ask at once; returns the answers delivered.
fn exchange(device: &Arc<XdpDevice>, lanes: usize, count: u64) -> usize {
    let since_ns = clock::monotonic_ns();
    let sockets = device.sockets_per_lane();
    std::thread::scope(|scope| {
        let lane = |lane: usize| {
            let mut transport = XdpTransport::new(device, lane).unwrap();
            assert!(!transport.is_zero_copy(), "veth cannot");
            move || {
                let sent = send(&mut transport, sockets, lane as u64 * count, count);
                let answers = receive(&mut transport, &sent, since_ns, sent.len());
                assert_eq!(transport.drops(), 0);
                let counters = transport.counters().unwrap();
                assert_eq!((counters.unstamped, counters.malformed, counters.send_invalid), (0, 0, 0));
                answers
            }
        };
        // All rings are there before the first query.
        let lanes: Vec<_> = (0..lanes).map(lane).collect();
        let threads: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(lane)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn every_query_is_answered_at_its_own_socket() {
    if !can_run() {
        return;
    }
    for (queues, lanes, mode) in
        [(1, 1, Mode::Native), (2, 1, Mode::Native), (2, 2, Mode::Native), (2, 2, Mode::Generic)]
    {
        let pair = Pair::with_queues(queues);
        for v6 in [false, true] {
            let (answers, asked) = with_echo(&pair, server(v6), || {
                let mode = Some(mode);
                let config = XdpConfig { lanes, mode, ..XdpConfig::new(server(v6), 16 * lanes) };
                let device = XdpDevice::open(&config).unwrap();
                assert_eq!((device.queues(), Some(device.mode())), (queues, mode));
                let answers = exchange(&device, lanes, 500);
                assert_eq!((device.answers().taken, device.answers().wrong_queue), (answers as u64, 0));
                answers
            });
            let all = 500 * lanes;
            assert_eq!((answers, asked), (all, all as u64), "{queues} queues, {lanes} lanes, IPv6 {v6}");
        }
        pair.tester(|| wait_for(|| bpf::attached_program(device()).unwrap().is_none()));
    }
}

/// The threads of a trial finish one after the other, while answers for all come to all queues.
#[test]
fn a_trial_accounts_for_every_query_whatever_queue_its_answer_comes_by() {
    if !can_run() {
        return;
    }
    let pair = Pair::with_queues(2);
    let set_response = |octets: &mut [u8]| octets[2] |= 0x80;
    let workload = WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        native: None,
        edns_octets: None,
        variation: Variation { any_response: true, ..Variation::default() },
    };
    let workload = Workload::new(workload).unwrap();
    let udp = UdpConfig {
        server: server(true),
        sockets: 32,
        first_socket: 0,
        sources: transport::Sources::default(),
        receive_buffer_octets: 0,
    };
    let plan = Plan {
        rate_qps: 3000,
        duration_ns: 500_000_000,
        timeout_ns: 5_000_000_000,
        listen_ns: 5_000_000_000,
        backend: Backend::Xdp,
        udp,
        streams: None,
        prioritized: false,
        log: false,
        model: Model::Constant,
    };
    let (measured, asked) = with_responder(&pair, server(true), set_response, || {
        let cpus: Vec<usize> = sys::cpu::available().into_iter().cycle().take(2).collect();
        measure::run(&plan, &workload, &cpus, None, &AtomicBool::new(false), &Live::default()).unwrap()
    });
    let stats = &measured.stats;
    assert_eq!((stats.sent, stats.valid, asked), (1500, 1500, 1500), "{:?}", stats.defects);
    assert_eq!((stats.unexpected, stats.duplicates), (0, 0));
    assert_eq!((measured.socket_drops, measured.wrong_queue), (0, 0));
}

#[test]
fn answers_on_a_queue_without_a_ring_are_counted() {
    if !can_run() {
        return;
    }
    let pair = Pair::with_queues(2);
    let ((), asked) = with_echo(&pair, server(false), || {
        let config = XdpConfig { queues: Some(1), ..XdpConfig::new(server(false), 64) };
        let device = XdpDevice::open(&config).unwrap();
        let mut transport = XdpTransport::new(&device, 0).unwrap();
        let since_ns = clock::monotonic_ns();
        let sent = send(&mut transport, 64, 0, 640);
        wait_for(|| device.answers().taken + device.answers().wrong_queue == 640);
        let (answers, counted) = (receive(&mut transport, &sent, since_ns, 0), device.answers());
        assert_eq!(answers, 0);
        let answers = receive(&mut transport, &sent, since_ns, counted.taken as usize);
        assert_eq!(answers as u64, counted.taken);
        assert!(counted.wrong_queue > 0 && counted.taken > 0, "{counted:?}");
        assert_eq!(transport.drops(), 0);
    });
    assert_eq!(asked, 640);
}

#[test]
fn answers_beyond_the_rings_room_are_counted_as_dropped_here() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let ((), asked) = with_echo(&pair, server(true), || {
        let config = XdpConfig { receive_frames: 64, ..XdpConfig::new(server(true), 16) };
        let device = XdpDevice::open(&config).unwrap();
        let mut transport = XdpTransport::new(&device, 0).unwrap();
        let since_ns = clock::monotonic_ns();
        let sent = send(&mut transport, 16, 0, 300);
        wait_for(|| device.answers().taken == 300);
        assert_eq!(transport.drops(), 300 - 64);
        assert_eq!(receive(&mut transport, &sent, since_ns, 64), 64);
        // The ring serves on.
        let sent = send(&mut transport, 16, 1000, 50);
        assert_eq!(receive(&mut transport, &sent, since_ns, 50), 50);
        assert_eq!(transport.drops(), 300 - 64);
    });
    assert_eq!(asked, 350);
}

#[test]
fn sources_may_have_addresses_and_ports_of_their_own() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    for address in ["198.18.0.77/24", "2001:2::77/64 nodad"] {
        ip(&format!("-n {} address add {address} dev {}", pair.tester_name(), support::DEVICE));
    }
    for (v6, second) in [(false, "198.18.0.77"), (true, "2001:2::77")] {
        let first = TESTER[usize::from(v6)];
        let source = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
        let sources: Vec<_> =
            (20_000..20_004).flat_map(|port| [source(first, port), source(second, port)]).collect();
        let (answers, asked) = with_echo(&pair, server(v6), || {
            let device =
                XdpDevice::open(&XdpConfig { sources: sources.clone(), ..XdpConfig::new(server(v6), 0) })
                    .unwrap();
            assert_eq!(device.sockets_per_lane(), 8);
            exchange(&device, 1, 80)
        });
        assert_eq!((answers, asked), (80, 80));
    }
}

#[test]
fn what_cannot_run_here_says_why_and_leaves_the_device_as_it_was() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let config = XdpConfig::new(server(false), 4);
    pair.peer(|| drop(UdpSocket::bind(server(false)).unwrap()));
    pair.tester(|| {
        let refused = |config: &XdpConfig| XdpDevice::open(config).err().expect("it is refused");
        let own = SocketAddr::new(TESTER[0].parse().unwrap(), PORT);
        let local = refused(&XdpConfig::new(own, 4)).to_string();
        assert!(local.ends_with("over lo, and lo has no Ethernet; use --io udp"), "{local}");
        let lanes = refused(&XdpConfig { lanes: 2, ..config.clone() });
        assert!(matches!(lanes, XdpError::Queues { queues: 1, lanes: 2, .. }), "{lanes}");
        let missing = refused(&XdpConfig { device: Some("no-such".into()), ..config.clone() });
        assert!(missing.to_string().contains("no network device \"no-such\""), "{missing}");

        let taken = UdpSocket::bind((TESTER[0], 20_000)).unwrap();
        let sources = vec![taken.local_addr().unwrap()];
        let port = refused(&XdpConfig { sources, ..config.clone() });
        assert!(port.to_string().starts_with("source port 20000 cannot be taken"), "{port}");

        let foreign = bpf::attach_pass(device(), None).unwrap();
        let occupied = refused(&config);
        assert!(matches!(occupied, XdpError::Program(BpfError::Occupied { .. })), "{occupied}");
        drop(foreign);

        let one = XdpDevice::open(&config).unwrap();
        let _socket = XdpTransport::new(&one, 0).unwrap();
        let again = XdpTransport::new(&one, 0).err().expect("the queue is taken").to_string();
        assert!(again.contains("queue 0 of veth0") && again.contains("another AF_XDP socket"), "{again}");
    });
    pair.tester(|| wait_for(|| bpf::attached_program(device()).unwrap().is_none()));
}

/// A device that goes down or away ends a trial with an error, and nothing else.
#[test]
fn a_device_that_goes_down_is_an_error_that_names_it() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let ((), _) = with_echo(&pair, server(false), || {
        let device = XdpDevice::open(&XdpConfig::new(server(false), 4)).unwrap();
        let mut transport = XdpTransport::new(&device, 0).unwrap();
        let since_ns = clock::monotonic_ns();
        let sent = send(&mut transport, 4, 0, 40);
        assert_eq!(receive(&mut transport, &sent, since_ns, 40), 40);
        let too_long = transport.send(0, 2, &mut |_| 0);
        assert_eq!(too_long.failed, 2);
        assert!(too_long.error.unwrap().to_string().contains("longer than 512 octets"));
        let mut refused = |count| {
            let result = transport.send(0, count, &mut |buffer| {
                buffer[..12].fill(0);
                12
            });
            assert_eq!(result.failed, count);
            let received = transport.receive(&mut |_, _, _| panic!("nothing was sent"));
            (result.error.unwrap().to_string(), received)
        };
        // Without a carrier the device drops what it is given.
        pair.peer(|| ip("link set veth0 down"));
        let (error, received) = refused(3);
        assert!(error.contains("veth0: the device refused frames") && received.is_ok(), "{error}");
        // Once it is down or gone, nothing can be given to it.
        for change in ["set veth0 down", "del veth0"] {
            ip(&format!("-n {} link {change}", pair.tester_name()));
            let (error, received) = refused(3);
            assert!(error.starts_with("sending on veth0: ") && received.is_err(), "{error}");
        }
    });
}

#[test]
fn missing_capabilities_are_named_all_at_once() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    pair.tester(|| {
        support::drop_capabilities();
        let error = XdpDevice::open(&XdpConfig::new(server(false), 4)).err().expect("it is refused");
        let text = error.to_string();
        assert!(text.contains("CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_NET_RAW are missing"), "{text}");
        assert!(text.contains("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep"), "{text}");
    });
}

/// The namespace in which [`holder`] asks.
const HOLD_IN: &str = "AX_HOLD_IN";

/// Run by the next test as a process of its own; alone it does nothing.
#[test]
fn holder() {
    let Ok(namespace) = std::env::var(HOLD_IN) else { return };
    support::enter(&namespace);
    let device = XdpDevice::open(&XdpConfig::new(server(false), 16)).unwrap();
    let mut transport = XdpTransport::new(&device, 0).unwrap();
    println!("held");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        send(&mut transport, 16, 0, 50);
        transport.receive(&mut |_, _, _| false).unwrap();
    }
}

#[test]
fn a_killed_measurer_leaves_a_device_that_the_next_can_use() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let (answers, _) = with_echo(&pair, server(false), || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder", "--nocapture"])
            .env(HOLD_IN, pair.tester_name())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("held")));
        std::thread::sleep(Duration::from_millis(100));
        child.kill().unwrap();
        // At once: the kernel takes its time to clear up.
        let device = XdpDevice::open(&XdpConfig::new(server(false), 16)).unwrap();
        let answers = exchange(&device, 1, 100);
        child.wait().unwrap();
        answers
    });
    assert_eq!(answers, 100);
    pair.tester(|| wait_for(|| bpf::attached_program(device()).unwrap().is_none()));
}

/// Other tests start processes, which hold for a moment what this one has closed: nothing is gone at once.
fn wait_for(condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "it did not happen in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
