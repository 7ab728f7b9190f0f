//! The Measurer's threads: they drive lanes over a transport by the clock.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::lane::Lane;
use engine::stats::Stats;
use engine::workload::Workload;

use crate::connection_limits;
use crate::kernel;
use crate::live::{Live, Reporter};
use crate::plan::{Measured, Plan};
use crate::transport::{AnyTransport, Backend, Opener, Transport, UdpConfig};
use sys::clock;
use sys::cpu;
use sys::link;
use sys::process;

/// Work that a Measurer's thread does between its own sends: on a machine with few processors it is the
/// AuthDNS, so that both halves of the Tester share a processor without fighting for it. It must do a small,
/// bounded piece for each call and returns how much it did.
pub type Coworker<'a> = &'a mut (dyn FnMut() -> usize + Send);

/// Time between the start of the threads and the first query: they settle in it.
const LEAD_NS: u64 = 30_000_000;
/// Waits longer than this are slept through; the thread wakes up this long before the next query is due.
const WAKE_EARLY_NS: u64 = 150_000;
/// While queries are due, answers are taken this often, so that several come with one call. The kernel notes
/// when they arrived, so they lose nothing by waiting.
const RECEIVE_EVERY_NS: u64 = 200_000;
/// While queries are due, the coworker has its turn this often.
const HELP_EVERY_NS: u64 = 60_000;
/// Open files besides the Measurer's sockets: pollers, the AuthDNS, the record.
const FILES_BESIDE: usize = 128;
/// The longest sleep, so that a stop is seen soon.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// Whether the back-end can run a trial of this kind with so many threads: [`Backend::Kernel`] knows few, the
/// others know all, as far as there are files and ports for its sockets.
///
/// # Errors
/// What it cannot do ([`kernel::Refusal`]), there is no way for it to the server, or there are too few files
/// or ports.
pub fn check(plan: &Plan, workload: &Workload, threads: usize) -> io::Result<()> {
    if plan.backend != Backend::Kernel {
        return check_sources(plan, threads.max(1));
    }
    let path = link::path_to(plan.udp.server).map_err(io::Error::other)?;
    kernel::check(plan, workload, &path)
        .map_err(|refusal| io::Error::new(io::ErrorKind::Unsupported, refusal))
}

/// Runs a trial: a thread for each entry of `cpus`, pinned to it. The first one also does the coworker's
/// work. `live` shows what they count.
///
/// # Errors
/// Sockets that cannot be opened or break. What the server does is never an error.
pub fn run(
    plan: &Plan,
    workload: &Workload,
    cpus: &[usize],
    mut coworker: Option<Coworker<'_>>,
    stop: &AtomicBool,
    live: &Live,
) -> io::Result<Measured> {
    if plan.backend == Backend::Kernel {
        if coworker.is_some() {
            let message = "the kernel back-end leaves no turns to the AuthDNS: give it threads of its own (--auth-threads)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let path = link::path_to(plan.udp.server).map_err(io::Error::other)?;
        return kernel::run(plan, workload, &path, cpus, stop, live);
    }
    let lanes = cpus.len().max(1);
    check_sources(plan, lanes)?;
    let opener = &prepare_opener(plan, workload, lanes)?;
    let cpu_of = |lane: usize| cpus.get(lane).copied();
    // Thousands of sockets take longer to open than any lead: the clock starts when everybody is ready.
    let ready: Vec<_> = in_threads(
        (0..lanes).map(|lane| move || prepare(plan, workload, opener, (lane, lanes), (cpu_of(lane), stop))),
    );
    let ready = ready.into_iter().collect::<io::Result<Vec<_>>>()?;
    live.set_standing(ready.iter().map(|(_, transport)| transport.standing()).sum());
    let schedule = plan.spec(0, lanes, clock::monotonic_ns() + LEAD_NS).schedule;
    let results = in_threads(ready.into_iter().enumerate().map(|(index, (mut lane, transport))| {
        let coworker = coworker.take();
        lane.start_at(schedule.start_ns);
        move || lane_thread(lane, transport, (cpu_of(index), plan.prioritized), coworker, stop, live)
    }));
    let mut measured = Measured {
        schedule,
        stats: Stats::new(schedule),
        socket_drops: 0,
        wrong_queue: 0,
        icmp_errors: 0,
        fallback: None,
        interrupted: false,
        cpu_ns: 0,
        send_error: None,
    };
    for result in results {
        let lane = result?;
        measured.stats.merge(lane.stats);
        measured.socket_drops += lane.transport.drops();
        measured.icmp_errors += lane.transport.icmp_errors();
        measured.fallback = measured.fallback.or(lane.transport.fallback());
        measured.interrupted |= lane.driven.interrupted;
        measured.cpu_ns += lane.cpu_ns;
        measured.send_error = lane.driven.send_error.or(measured.send_error);
    }
    measured.wrong_queue = opener.wrong_queue();
    Ok(measured)
}

/// Does each piece of work in a thread of its own; returns the results in their order.
fn in_threads<T: Send>(work: impl Iterator<Item = impl FnOnce() -> T + Send>) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.map(|work| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Whether so many sockets can be had; each also needs a source of its own.
fn check_sources(plan: &Plan, lanes: usize) -> io::Result<()> {
    let UdpConfig { sockets, sources, server, .. } = &plan.udp;
    if let Some(streams) = &plan.streams {
        connection_limits::check(plan, streams, lanes)?;
        return sources.check(*sockets, *server);
    }
    let too_many = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    if let Some(pairs) = sources.pairs().filter(|&pairs| pairs < *sockets as u64) {
        return too_many(format!(
            "{sockets} sockets need {sockets} sources, and the range given has {pairs}"
        ));
    }
    let (limit, needed) = (process::raise_file_limit(), (sockets + FILES_BESIDE) as u64);
    if needed > limit {
        return too_many(format!(
            "{sockets} sockets need {needed} open files, {limit} are allowed: ask for fewer, or raise the limit with \
             'ulimit -n {needed}'"
        ));
    }
    if !plan.backend.has_sockets() {
        return Ok(());
    }
    let (ports, addresses) = connection_limits::free_ports(sources);
    if sources.ports.is_none() && ports.saturating_mul(addresses) < *sockets as u64 {
        let needed = (*sockets as u64).div_ceil(ports);
        return too_many(format!(
            "{sockets} sockets need {sockets} ports, and net.ipv4.ip_local_port_range has {ports} for each of {addresses} \
             source addresses: use --source with a prefix of at least {needed} addresses, or fewer sockets"
        ));
    }
    sources.check(*sockets, *server)
}

/// Prepares the transports of so many threads.
fn prepare_opener(plan: &Plan, workload: &Workload, threads: usize) -> io::Result<Opener> {
    let Some(streams) = &plan.streams else {
        return Opener::of_datagrams(plan.backend, &plan.udp, threads);
    };
    let most = connection_limits::connections_max(plan, streams, threads) as usize;
    let seed = workload.spec().variation.seed;
    Ok(Opener::Streams(Box::new(streams.clone()), most.div_ceil(threads.max(1)), seed))
}

/// Opens the sockets and allocates the accounts of a thread, on its processor so that the memory is near it.
fn prepare(
    plan: &Plan,
    workload: &Workload,
    opener: &Opener,
    (lane, lanes): (usize, usize),
    (cpu, stop): (Option<usize>, &AtomicBool),
) -> io::Result<(Lane, AnyTransport)> {
    pin(cpu);
    let spec = plan.spec(lane, lanes, 0);
    let sockets = plan.sockets_of(lane, lanes);
    let config = UdpConfig { sockets: sockets.len(), first_socket: sockets.start, ..plan.udp };
    let transport = opener.open(lane, (&config, plan.timeout_ns), stop)?;
    Ok((Lane::new(spec, workload.clone()), transport))
}

/// Not being pinned costs evenness, which the trial's own checks will show.
fn pin(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = cpu::pin(cpu);
    }
}

struct LaneResult {
    stats: Stats,
    transport: AnyTransport,
    driven: LaneEnd,
    cpu_ns: u64,
}

fn lane_thread(
    mut lane: Lane,
    mut transport: AnyTransport,
    (cpu, prioritized): (Option<usize>, bool),
    coworker: Option<Coworker<'_>>,
    stop: &AtomicBool,
    live: &Live,
) -> io::Result<LaneResult> {
    pin(cpu);
    if prioritized {
        cpu::prioritize();
    }
    let started_ns = cpu::thread_time_ns();
    let mut reporter = Reporter::new(live);
    let driven = drive(&mut lane, &mut transport, coworker, stop, &mut reporter)?;
    transport.retire();
    transport.settle(&mut |fate| lane.note_fate(fate));
    let mut stats = lane.finish();
    stats.connections = transport.connections().map(Box::new);
    reporter.finish(&stats, transport.drops());
    Ok(LaneResult { stats, transport, driven, cpu_ns: cpu::thread_time_ns() - started_ns })
}

/// How a lane's loop ended.
#[derive(Debug, Default)]
pub struct LaneEnd {
    /// It was told to stop.
    pub interrupted: bool,
    /// The last error of a send.
    pub send_error: Option<io::Error>,
}

/// Runs a lane to its end: send what is due, take what has arrived, help the coworker, sleep if there is
/// time.
///
/// # Errors
/// Those of the transport.
pub fn drive(
    lane: &mut Lane,
    transport: &mut impl Transport,
    mut coworker: Option<Coworker<'_>>,
    stop: &AtomicBool,
    reporter: &mut Reporter<'_>,
) -> io::Result<LaneEnd> {
    let mut driven = LaneEnd::default();
    let (mut receive_at_ns, mut help_at_ns) = (0, 0);
    loop {
        let now_ns = clock::monotonic_ns();
        if lane.is_done(now_ns) || lane.is_hopeless(now_ns) {
            return Ok(driven);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(LaneEnd { interrupted: true, ..driven });
        }
        reporter.tell(now_ns, lane);
        let due = lane.due(now_ns);
        if let Some(batch) = due {
            let sent = transport.send(batch.socket, batch.queries, &mut |buffer| lane.write(now_ns, buffer));
            if sent.failed > 0 {
                lane.note_send_errors(sent.failed);
                driven.send_error = sent.error;
            }
        }
        let idle = due.is_none();
        let mut done = 0;
        if idle || now_ns >= receive_at_ns {
            done += transport.receive(&mut |at_ns, socket, octets| lane.receive(at_ns, socket, octets))?;
            receive_at_ns = now_ns + RECEIVE_EVERY_NS;
        }
        transport.settle(&mut |fate| lane.note_fate(fate));
        if let Some(work) = coworker.as_mut().filter(|_| idle || now_ns >= help_at_ns) {
            done += work();
            help_at_ns = now_ns + HELP_EVERY_NS;
        }
        if idle && done == 0 && coworker.is_none() {
            rest(lane, transport)?;
        }
    }
}

/// Sleeps while the next query is far enough away; else leaves the processor's resources to others for an
/// instant.
fn rest(lane: &Lane, transport: &mut impl Transport) -> io::Result<()> {
    let now_ns = clock::monotonic_ns();
    let until_ns = lane.next_due_ns().unwrap_or_else(|| lane.listen_until_ns());
    let idle_ns = until_ns.saturating_sub(now_ns);
    if idle_ns > 2 * WAKE_EARLY_NS {
        return transport.wait((idle_ns - WAKE_EARLY_NS).min(SLEEP_MAX_NS));
    }
    std::hint::spin_loop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Sources;
    use dns64::wire::{CLASS_IN, Header, Message, Name, Section, Writer, rtype};
    use engine::pacer::Model;
    use engine::workload::{Variation, WorkloadSpec};
    use std::net::SocketAddr;
    use sys::udp::{Options, ReceiveBatch, SendBatch, UdpSocket};

    fn workload() -> Workload {
        Workload::new(WorkloadSpec {
            names: "10.0.0.0/8".parse().unwrap(),
            first_name: 0,
            suffix: Name::from_text("dns64perf.test").unwrap(),
            prefix: "2001:db8:64::/96".parse().unwrap(),
            native: None,
            edns_octets: None,
            variation: Variation::default(),
        })
        .unwrap()
    }

    fn config(server: SocketAddr, sockets: usize) -> UdpConfig {
        let sources = Sources::default();
        UdpConfig { server, sockets, first_socket: 0, sources, receive_buffer_octets: 1 << 20 }
    }

    /// A server that answers every query but each seventh, as the coworker of the only thread.
    fn coworker(socket: UdpSocket) -> impl FnMut() -> usize + Send {
        let (mut incoming, mut outgoing) = (ReceiveBatch::new(32, 512), SendBatch::new(32, 512));
        let workload = workload();
        move || {
            let received = incoming.receive(&socket).unwrap();
            for datagram in incoming.iter() {
                let Some(number) = workload.number_of(datagram.octets).filter(|number| number % 7 != 3)
                else {
                    continue;
                };
                outgoing.push(Some(datagram.from), None, |buffer| {
                    let query = Message::parse(datagram.octets).unwrap();
                    let mut writer =
                        Writer::new(buffer, query.header.id, Header::QR, &query.question()).unwrap();
                    let address = workload.expected(number).octets();
                    writer
                        .record(Section::Answer, &query.question().name, rtype::AAAA, CLASS_IN, 1, &address)
                        .unwrap();
                    writer.finish()
                });
            }
            outgoing.flush(&socket);
            received
        }
    }

    #[test]
    fn answers_and_silence_are_counted_to_the_query() {
        for (listen, cpus) in [("[::1]:0", vec![]), ("127.0.0.1:0", cpu::available())] {
            let socket = UdpSocket::bind(listen.parse().unwrap(), &Options::default()).unwrap();
            let server = socket.local_addr().unwrap();
            let plan = Plan {
                rate_qps: 2000,
                duration_ns: 200_000_000,
                timeout_ns: 300_000_000,
                listen_ns: 300_000_000,
                backend: Backend::Udp,
                udp: config(server, 4),
                streams: None,
                prioritized: false,
                log: false,
                model: Model::Constant,
            };
            let mut work = coworker(socket);
            let (stop, live) = (AtomicBool::new(false), Live::default());
            let measured = run(&plan, &workload(), &cpus, Some(&mut work), &stop, &live).unwrap();
            let silent = (0..400).filter(|number| number % 7 == 3).count() as u64;
            assert_eq!(measured.stats.sent, 400);
            assert_eq!(measured.stats.valid, 400 - silent, "{:?}", measured.stats.defects);
            assert_eq!((measured.stats.unexpected, measured.socket_drops), (0, 0));
            let counts = live.counts();
            assert_eq!((counts.sent, counts.valid, counts.lost), (400, 400 - silent, silent));
            assert_eq!(live.latency().iter().sum::<u64>(), 400 - silent);
        }
    }

    #[test]
    fn a_trial_stops_when_told() {
        let sink = UdpSocket::bind("[::1]:0".parse().unwrap(), &Options::default()).unwrap();
        let plan = Plan {
            rate_qps: 100,
            duration_ns: 3_600_000_000_000,
            timeout_ns: 1_000_000_000,
            listen_ns: 1_000_000_000,
            backend: Backend::Udp,
            udp: config(sink.local_addr().unwrap(), 1),
            streams: None,
            prioritized: false,
            log: false,
            model: Model::Constant,
        };
        let stop = AtomicBool::new(true);
        let measured = run(&plan, &workload(), &[], None, &stop, &Live::default()).unwrap();
        assert!(measured.interrupted);
        assert!(measured.stats.sent < 100);
    }
}
