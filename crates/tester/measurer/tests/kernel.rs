//! The Measurer in the kernel between two namespaces: every query and every answer is accounted for.
#![allow(clippy::unwrap_used, reason = "what fails in the helpers of a test shall fail the test")]

#[path = "../../../sys/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use authdns::echo::{Reflector, ReflectorCounters};
use dns64::wire::{CLASS_IN, Header, Message, Name, Section, Writer, rcode, rtype};
use engine::pacer::Model;
use engine::workload::{Agent, Choice, Generator, QueryOptions, Variation, Workload, WorkloadSpec};
use measurer::kernel;
use measurer::live::Live;
use measurer::transport::{Backend, Sources, UdpConfig};
use measurer::{Measured, Plan};
use support::{MACS, PEER, Pair, TESTER, can_run, device};
use sys::bpf;
use sys::frame::Template;
use sys::link::{Device, path_to};

const SECOND_NS: u64 = 1_000_000_000;

fn spec() -> WorkloadSpec {
    WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        native: None,
        edns_octets: None,
        variation: Variation::default(),
    }
}

/// One test at a time, for each keeps a processor busy.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A workload for reflectors.
fn any_response() -> WorkloadSpec {
    WorkloadSpec { variation: Variation { any_response: true, ..Variation::default() }, ..spec() }
}

fn plan(rate_qps: u64, duration_ns: u64, sockets: usize) -> Plan {
    // The server is that of the path.
    let udp = UdpConfig {
        server: "[::1]:0".parse().unwrap(),
        sockets,
        first_socket: 0,
        sources: Sources::default(),
        receive_buffer_octets: 0,
    };
    Plan {
        rate_qps,
        duration_ns,
        // Long, for machines that are busy.
        timeout_ns: 3 * SECOND_NS,
        listen_ns: 3 * SECOND_NS,
        backend: Backend::Kernel,
        udp,
        streams: None,
        prioritized: false,
        log: false,
        model: Model::Constant,
    }
}

/// The figures of a trial that went wrong.
fn summary(measured: &Measured) -> String {
    let stats = &measured.stats;
    format!(
        "sent {} valid {} late {} duplicates {} unexpected {} drops {} {:?} {:?}",
        stats.sent,
        stats.valid,
        stats.late,
        stats.duplicates,
        stats.unexpected,
        measured.socket_drops,
        stats.defects,
        stats.schedule_error()
    )
}

fn server(family: usize, port: u16) -> SocketAddr {
    SocketAddr::new(PEER[family].parse::<IpAddr>().unwrap(), port)
}

fn run(plan: &Plan, spec: WorkloadSpec, server: SocketAddr, cpus: &[usize]) -> Measured {
    let path = path_to(server).unwrap();
    let workload = Workload::new(spec).unwrap();
    let measured = kernel::run(plan, &workload, &path, cpus, &AtomicBool::new(false), &Live::default());
    measured.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_reflector_returns_every_query() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let pair = Pair::new();
    let reflector = pair.peer(|| Reflector::start_timed(device(), 5300, None).unwrap());
    let cpus = sys::cpu::available();
    let mut asked = 0;
    // Families, lengths of name and query, numbers of lanes and ports.
    // Each time as another of three Measurers.
    for (index, (family, suffix, edns_octets, lanes, sockets)) in [
        (0, "dns64perf.test", None, 1, 64),
        (1, "dns64perf.test", Some(1232), cpus.len(), 4096),
        (1, "t", None, cpus.len(), 1),
        (0, "a-label-of-31-characters-is-here.and-this-is-one-of-27-letters", Some(4096), 1, 7),
    ]
    .into_iter()
    .enumerate()
    {
        let agent = Agent { index: index as u32 % 3, agents: 3 };
        let variation = Variation { any_response: true, agent, ..Variation::default() };
        let suffix = Name::from_text(suffix).unwrap();
        let spec = WorkloadSpec { suffix, edns_octets, first_name: 1 << 23, variation, ..spec() };
        // The last as bursts.
        let model = if index == 3 { Model::Burst { queries: 64 } } else { Model::Constant };
        let plan = Plan { model, ..plan(7001, SECOND_NS / 2, sockets) };
        let measured = pair.tester(|| run(&plan, spec, server(family, 5300), &cpus[..lanes]));
        let stats = &measured.stats;
        assert_eq!(
            (stats.sent, stats.valid, measured.socket_drops),
            (3500, 3500, 0),
            "{}",
            summary(&measured)
        );
        assert_eq!((stats.duplicates, stats.unexpected, stats.late, stats.invalid), (0, 0, 0, 0));
        assert_eq!(stats.latency_ns.len(), 3500);
        assert_eq!(stats.lateness_ns.len(), 3500);
        assert_eq!(stats.series()[0].valid, 3500);
        asked += 3500;
        assert_eq!(reflector.counters(), ReflectorCounters { reflected: asked, ..Default::default() });
    }
    assert_eq!(reflector.series().iter().sum::<u64>(), asked);
    pair.tester(|| assert_eq!(bpf::attached_program(device()).unwrap(), None));
}

#[test]
fn each_lane_has_the_queue_of_its_processor() {
    if !can_run() {
        return;
    }
    let cpus = sys::cpu::available();
    if cpus.len() < 2 {
        testing::skip("two processors", "one processor has one lane");
        return;
    }
    let _turn = turn();
    let queues = cpus[cpus.len() - 1] + 1;
    let pair = Pair::with_queues(queues);
    let _reflector = pair.peer(|| Reflector::start(device(), 5300, None).unwrap());
    let received = || {
        let of = |counters: &BTreeMap<String, u64>, cpu: &usize| {
            counters[&format!("ethtool.rx_queue_{cpu}_xdp_packets")]
        };
        let counters = pair.peer(|| Device::by_index(device()).unwrap().statistics().unwrap());
        cpus.iter().map(|cpu| of(&counters, cpu)).collect::<Vec<_>>()
    };
    let before = received();
    let plan = plan(1000 * cpus.len() as u64, SECOND_NS / 2, 16);
    let measured = pair.tester(|| run(&plan, any_response(), server(0, 5300), &cpus));
    assert_eq!(measured.stats.valid, 500 * cpus.len() as u64, "{}", summary(&measured));
    for (after, before) in received().iter().zip(before) {
        // Besides, the stack of the other end may announce itself.
        assert!((500..510).contains(&(after - before)), "{after} - {before}");
    }
}

/// What the server of the next tests does with query `n`; `None` answers rightly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quirk {
    Silent,
    Twice,
    WrongId,
    WrongQuestion,
    WrongAddress,
    Nxdomain,
    Truncated,
    NoRecord,
    Chain,
    FullName,
    UpperCase,
    OtherSourcePort,
}

const QUIRKS: [Quirk; 12] = [
    Quirk::Silent,
    Quirk::Twice,
    Quirk::WrongId,
    Quirk::WrongQuestion,
    Quirk::WrongAddress,
    Quirk::Nxdomain,
    Quirk::Truncated,
    Quirk::NoRecord,
    Quirk::Chain,
    Quirk::FullName,
    Quirk::UpperCase,
    Quirk::OtherSourcePort,
];

/// Each thirteenth query is answered rightly, the others have a quirk each.
fn quirk_of(n: u64) -> Option<Quirk> {
    QUIRKS.get((n % 13) as usize).copied()
}

/// A server that answers by [`quirk_of`], after a delay, until it is told to stop.
fn serve(listen: SocketAddr, spec: WorkloadSpec, delay: Duration, ready: &Sender<()>, stop: &AtomicBool) {
    let (socket, other) = (UdpSocket::bind(listen).unwrap(), UdpSocket::bind((listen.ip(), 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    support::enlarge_buffer(&socket);
    ready.send(()).unwrap();
    let workload = Workload::new(spec).unwrap();
    let mut waiting = VecDeque::new();
    let mut buffer = [0; 512];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            waiting.push_back((Instant::now() + delay, from, buffer[..length].to_vec()));
        }
        while waiting.front().is_some_and(|(at, _, _)| *at <= Instant::now()) {
            let (_, from, query) = waiting.pop_front().unwrap();
            let quirk = quirk_of(workload.number_of(&query).expect("a query of the workload"));
            let reply = reply(&workload, &query, quirk);
            let times = match quirk {
                Some(Quirk::Silent) => 0,
                Some(Quirk::Twice) => 2,
                _ => 1,
            };
            let sender = if quirk == Some(Quirk::OtherSourcePort) { &other } else { &socket };
            for _ in 0..times {
                sender.send_to(&reply, from).unwrap();
            }
        }
    }
}

fn reply(workload: &Workload, query: &[u8], quirk: Option<Quirk>) -> Vec<u8> {
    let n = workload.number_of(query).unwrap();
    let asked = Message::parse(query).unwrap();
    let (header, question) = (asked.header, asked.question());
    let id = header.id ^ u16::from(quirk == Some(Quirk::WrongId));
    let flags = match quirk {
        Some(Quirk::Nxdomain) => u16::from(rcode::NXDOMAIN),
        Some(Quirk::Truncated) => Header::TC,
        _ => 0,
    };
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, id, Header::QR | Header::RA | flags, &question).unwrap();
    let number = n + u64::from(quirk == Some(Quirk::WrongAddress));
    let address = match question.qtype {
        rtype::A => Ipv4Addr::from(0x0a00_0000 | number as u32).octets().to_vec(),
        _ => workload.expected(number).octets().to_vec(),
    };
    let qtype = question.qtype;
    let mut owner = question.name;
    if quirk == Some(Quirk::Chain) {
        let target = Name::from_text("elsewhere.test").unwrap();
        writer.record(Section::Answer, &owner, rtype::CNAME, CLASS_IN, 60, target.as_wire()).unwrap();
        owner = target;
    }
    if !matches!(quirk, Some(Quirk::NoRecord | Quirk::Nxdomain)) {
        writer.record(Section::Answer, &owner, qtype, CLASS_IN, 60, &address).unwrap();
    }
    let length = writer.finish();
    let mut reply = buffer[..length].to_vec();
    match quirk {
        Some(Quirk::WrongQuestion) => reply[13 + 15 + 3] ^= 1,
        Some(Quirk::UpperCase) => reply[13 + 15..][..17].make_ascii_uppercase(),
        Some(Quirk::FullName) => {
            // The owner spelled out instead of a pointer.
            let name = reply[12..workload.question_end() - 4].to_vec();
            let at = workload.question_end();
            reply.splice(at..at + 2, name);
        }
        _ => {}
    }
    reply
}

/// Runs a trial against the quirky server, again if the machine was too busy for its schedule.
fn against_server(plan: &Plan, spec: &WorkloadSpec, family: usize, delay: Duration) -> Measured {
    const ATTEMPTS: usize = 4;
    let on_time = |measured: &Measured| {
        let stats = &measured.stats;
        stats.sent == measured.schedule.queries && stats.schedule_error().max < SECOND_NS / 4
    };
    let mut measured = attempt(plan, spec, family, delay);
    for _ in 1..ATTEMPTS {
        if on_time(&measured) {
            break;
        }
        measured = attempt(plan, spec, family, delay);
    }
    measured
}

fn attempt(plan: &Plan, spec: &WorkloadSpec, family: usize, delay: Duration) -> Measured {
    let address = server(family, 5353);
    beside(plan, spec, address, |ready, stop| serve(address, spec.clone(), delay, ready, stop))
}

/// Runs a trial between two namespaces while `serve` serves in the other one: it says when it is ready, and
/// is told when to stop, also if the trial panics.
fn beside(
    plan: &Plan,
    spec: &WorkloadSpec,
    address: SocketAddr,
    serve: impl FnOnce(&Sender<()>, &AtomicBool) + Send,
) -> Measured {
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let pair = Pair::new();
    let _pass = pair.peer(|| bpf::attach_pass(device(), None).unwrap());
    let stop = AtomicBool::new(false);
    let (ready, is_ready) = channel();
    std::thread::scope(|scope| {
        let (pair, stop) = (&pair, &stop);
        scope.spawn(move || pair.peer(|| serve(&ready, stop)));
        let _stop = Stop(stop);
        is_ready.recv().unwrap();
        pair.tester(|| run(plan, spec.clone(), address, &[]))
    })
}

#[test]
fn every_kind_of_answer_ends_in_its_class() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let prefixes = ["2001:db8:64::/96", "2001:db8::/32", "2001:db8:4000::/40", "2001:db8:122:300::/56"];
    for (index, prefix) in prefixes.into_iter().enumerate() {
        let native = (index == 1).then(|| (30, "2001:dba::/32".parse().unwrap()));
        let edns_octets = (index % 2 == 0).then_some(1232);
        let types = if index == 3 { "A" } else { "AAAA" }.parse().unwrap();
        let variation = Variation { types, ..Variation::default() };
        let spec = WorkloadSpec { prefix: prefix.parse().unwrap(), native, edns_octets, variation, ..spec() };
        let plan = plan(1300, SECOND_NS, 1000);
        let measured = against_server(&plan, &spec, index % 2, Duration::ZERO);
        let stats = &measured.stats;
        // Of 100 times 13: right ones, two of Twice, Chain, FullName, UpperCase.
        assert_eq!((stats.sent, stats.valid, stats.late), (1300, 500, 0), "{}", summary(&measured));
        assert_eq!((stats.duplicates, stats.unexpected), (100, 200), "{:?}", stats.defects);
        let none = if index == 3 { "no A record" } else { "no AAAA record" };
        let defects = ["NXDOMAIN", none, "truncated (TC)", "wrong address"];
        let counted: Vec<_> = stats.defects.iter().map(|(defect, count)| (defect.as_str(), *count)).collect();
        assert_eq!(counted, defects.map(|defect| (defect, 100)));
        // By dns64perf++'s rule those with a wrong address and those cut short count, too.
        assert_eq!((stats.invalid, stats.valid_compat), (400, 700));
        assert_eq!(stats.series()[0].valid, 500);
        assert_eq!((stats.rcodes[0], stats.rcodes[3]), (800, 100));
        assert_eq!((measured.socket_drops, stats.latency_ns.len()), (0, 500));
        let (found, expected) = stats.wrong_address.unwrap();
        assert_ne!(found, expected);
    }
}

#[test]
fn answers_after_the_timeout_are_late() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let plan = Plan { timeout_ns: 40_000_000, ..plan(1300, SECOND_NS / 10, 16) };
    let measured = against_server(&plan, &spec(), 0, Duration::from_millis(50));
    let stats = &measured.stats;
    // All that have the right question, ID and source.
    assert_eq!(
        (stats.sent, stats.late, stats.valid, stats.invalid),
        (130, 90, 0, 0),
        "{}",
        summary(&measured)
    );
    assert_eq!((stats.duplicates, stats.unexpected), (10, 20));
    assert_eq!(stats.series()[0].valid, 0);
}

/// A server that answers query `last` over and over until the first one comes, and then those that come,
/// until it is told to stop.
fn answer_early(listen: SocketAddr, workload: &Workload, last: u64, ready: &Sender<()>, stop: &AtomicBool) {
    let socket = UdpSocket::bind(listen).unwrap();
    socket.set_nonblocking(true).unwrap();
    support::enlarge_buffer(&socket);
    ready.send(()).unwrap();
    // The ID is the one that query will have, and the port the first.
    let (id, mut buffer) = ((last as u16).wrapping_mul(0x9e35).wrapping_add(0x5bd1), [0; 512]);
    let length = workload.write(last, id, &mut buffer);
    let early = reply(workload, &buffer[..length], None);
    let mut is_asked = false;
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            is_asked = true;
            socket.send_to(&reply(workload, &buffer[..length], None), from).unwrap();
            continue;
        }
        if !is_asked {
            let _ = socket.send_to(&early, (TESTER[0], 61_440));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn answers_that_come_before_the_trial_are_nobodys() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let (plan, address) = (plan(1000, SECOND_NS / 10, 1), server(0, 5353));
    let workload = Workload::new(spec()).unwrap();
    let early = |ready: &Sender<()>, stop: &AtomicBool| answer_early(address, &workload, 99, ready, stop);
    let measured = beside(&plan, &spec(), address, early);
    let stats = &measured.stats;
    assert_eq!(
        (stats.sent, stats.valid, stats.late, stats.duplicates),
        (100, 100, 0, 0),
        "{}",
        summary(&measured)
    );
    assert!(stats.unexpected > 0, "the early ones came");
}

/// A server whose answers fill their datagrams in turn rightly, up to the label of the question only, and up
/// to its end only; the rest of the message stands behind the datagram. With each goes a frame of another
/// protocol.
fn answer_in_frames(listen: SocketAddr, workload: &Workload, ready: &Sender<()>, stop: &AtomicBool) {
    let (socket, frames) = (UdpSocket::bind(listen).unwrap(), support::frame_socket());
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    support::enlarge_buffer(&socket);
    ready.send(()).unwrap();
    let mut announcement = [0; 60];
    announcement[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0xe]);
    announcement[6..12].copy_from_slice(&MACS[1]);
    announcement[12..14].copy_from_slice(&[0x88, 0xcc]);
    let mut buffer = [0; 512];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let answer = reply(workload, &buffer[..length], None);
        let template = Template::new(MACS[1], MACS[0], listen, from).unwrap();
        let start = template.payload_offset();
        let mut frame = [0; 512];
        frame[start..start + answer.len()].copy_from_slice(&answer);
        let n = workload.number_of(&buffer[..length]).unwrap();
        let octets = [answer.len(), 13 + 15, workload.question_end()][(n % 3) as usize];
        template.complete(&mut frame, octets);
        support::send_frame(&frames, device(), &frame[..start + answer.len()]);
        support::send_frame(&frames, device(), &announcement);
    }
}

#[test]
fn what_stands_behind_a_datagram_or_is_none_is_no_answer() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    for family in 0..2 {
        let plan = Plan { timeout_ns: SECOND_NS, listen_ns: SECOND_NS, ..plan(990, SECOND_NS / 10, 1) };
        let address = server(family, 5353);
        let workload = Workload::new(spec()).unwrap();
        let in_frames =
            |ready: &Sender<()>, stop: &AtomicBool| answer_in_frames(address, &workload, ready, stop);
        let measured = beside(&plan, &spec(), address, in_frames);
        let stats = &measured.stats;
        assert_eq!((stats.sent, stats.valid, stats.unexpected), (99, 33, 33), "{}", summary(&measured));
        assert_eq!(stats.defects.get("malformed"), Some(&33), "{}", summary(&measured));
        assert_eq!(stats.invalid, 33);
        assert_eq!(measured.socket_drops, 0, "frames of other protocols are nobody's loss");
    }
}

#[test]
fn what_it_cannot_do_is_refused_in_one_line() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let pair = Pair::new();
    let refusal = |plan: &Plan, spec: WorkloadSpec, cpus: &[usize]| {
        pair.tester(|| {
            let path = path_to(server(0, 5353)).unwrap();
            let workload = Workload::new(spec).unwrap();
            let stop = AtomicBool::new(false);
            let result = kernel::run(plan, &workload, &path, cpus, &stop, &Live::default());
            let Err(error) = result else { panic!("it was done") };
            assert_eq!(bpf::attached_program(device()).unwrap(), None);
            error.to_string()
        })
    };
    let names = "10.0.0.0/24".parse().unwrap();
    let text = refusal(&plan(257, SECOND_NS, 1), WorkloadSpec { names, ..spec() }, &[]);
    assert!(text.contains("the trial needs 257 names, but there are 256"), "{text}");
    let suffix = Name::from_text(&format!("{0}.{0}", "a".repeat(32))).unwrap();
    let text = refusal(&plan(1, SECOND_NS, 1), WorkloadSpec { suffix, ..spec() }, &[]);
    assert!(text.contains("the suffix has 67 octets in wire format; at most 64"), "{text}");
    let text = refusal(&Plan { timeout_ns: 101 * SECOND_NS, ..plan(1, SECOND_NS, 1) }, spec(), &[]);
    assert!(text.contains("a timeout of 101 s; at most 100 s"), "{text}");
    let text = refusal(&plan(1, SECOND_NS, 1), spec(), &[0, 0]);
    assert!(text.contains("a processor of its own for each thread"), "{text}");
    let text = refusal(&plan(1, SECOND_NS, 1), spec(), &[1 << 20]);
    assert_eq!(text, "processor 1048576 does not exist or may not be used");
    let text = refusal(&Plan { model: "poisson:1".parse().unwrap(), ..plan(1, SECOND_NS, 1) }, spec(), &[]);
    assert!(text.contains("another load than a constant rate or bursts; use another --io"), "{text}");
    let types = "AAAA=50,A=50".parse().unwrap();
    let variation = Variation { types, ..Variation::default() };
    let text = refusal(&plan(1, SECOND_NS, 1), WorkloadSpec { variation, ..spec() }, &[]);
    assert!(text.contains("queries of several types"), "{text}");
    let generator = Generator::new(vec!["{random:9}.test".parse().unwrap()], 0).unwrap();
    let variation = Variation { choice: Choice::Generated(Arc::new(generator)), ..Variation::default() };
    let text = refusal(&plan(1, SECOND_NS, 1), WorkloadSpec { variation, ..spec() }, &[]);
    assert!(text.contains("questions from templates; use another --io"), "{text}");
    let options = QueryOptions { cookie: true, ..QueryOptions::default() };
    let variation = Variation { options, ..Variation::default() };
    let text = refusal(&plan(1, SECOND_NS, 1), WorkloadSpec { variation, ..spec() }, &[]);
    assert!(text.contains("queries that differ in more than the name"), "{text}");
    // Nobody listens at the other end of the veth: neither an XDP program nor GRO.
    let text = refusal(&plan(10_000, SECOND_NS / 10, 1), spec(), &[]);
    assert!(text.contains("device veth0 did not send the 1000 queries"), "{text}");
}

#[test]
fn a_trial_stops_when_told() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let pair = Pair::new();
    let reflector = pair.peer(|| Reflector::start(device(), 5300, None).unwrap());
    pair.tester(|| {
        let path = path_to(server(1, 5300)).unwrap();
        let (plan, stop) = (plan(1000, 600 * SECOND_NS, 64), AtomicBool::new(false));
        let measured = std::thread::scope(|scope| {
            scope.spawn(|| {
                while reflector.counters().reflected == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                stop.store(true, Ordering::Relaxed);
            });
            let workload = Workload::new(any_response()).unwrap();
            let live = Live::default();
            let measured = kernel::run(&plan, &workload, &path, &[], &stop, &live).unwrap();
            assert_eq!(live.counts().sent, measured.stats.sent);
            measured
        });
        assert!(measured.interrupted);
        assert!((1..100_000).contains(&measured.stats.sent), "{}", measured.stats.sent);
        assert_eq!(bpf::attached_program(device()).unwrap(), None);
    });
}

/// The namespace in which [`generator`] runs a trial.
const GENERATE_IN: &str = "KT_GENERATE_IN";

/// Run by the next test as a process of its own; alone it does nothing.
#[test]
fn generator() {
    let Ok(namespace) = std::env::var(GENERATE_IN) else { return };
    support::enter(&namespace);
    run(&plan(5000, 600 * SECOND_NS, 64), any_response(), server(0, 5300), &[]);
}

#[test]
fn a_killed_trial_leaves_a_device_for_the_next() {
    if !can_run() {
        return;
    }
    let _turn = turn();
    let pair = Pair::new();
    let reflector = pair.peer(|| Reflector::start(device(), 5300, None).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "generator"])
        .env(GENERATE_IN, pair.tester_name())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while reflector.counters().reflected < 100 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    pair.tester(|| assert!(bpf::attached_program(device()).unwrap().is_some()));
    child.kill().unwrap();
    child.wait().unwrap();
    let sent = reflector.counters().reflected;
    pair.tester(|| {
        assert_eq!(bpf::attached_program(device()).unwrap(), None);
        let measured = run(&plan(5000, SECOND_NS / 10, 64), any_response(), server(0, 5300), &[]);
        assert_eq!(measured.stats.valid, 500, "{}", summary(&measured));
    });
    assert_eq!(reflector.counters().reflected, sent + 500, "nothing went on sending");
}
