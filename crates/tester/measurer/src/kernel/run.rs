//! A trial from start to end.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::pacer::{SECOND_NS, Schedule};
use engine::stats::Stats;
use engine::workload::Workload;
use zerocopy::IntoBytes;

use super::accounts::{Accounts, Sizes};
use super::counters::{Counters, Losses};
use super::doubts::Doubts;
use super::generator::{Generator, Lane, batch};
use super::parameters::{Parameters, digits};
use crate::live::{Live, Reporter};
use crate::objects;
use crate::plan::{Measured, Plan};
use sys::bpf::{self, Attached, BpfError, Mode, Object, ProgramFd, attach};
use sys::link::{Device, Path};
use sys::{clock, cpu};

/// Time between the start of the threads and the first query: the kernel makes its frames in it.
const LEAD_NS: u64 = 100_000_000;
/// How often it is looked how far the lanes are, and what the sink has handed over.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Runs a trial over `path`: a thread for each entry of `cpus` (distinct processors), pinned to it; without
/// any, one on the first processor that may be used. `live` shows what they count.
///
/// # Errors
/// What this back-end cannot do ([`super::Refusal`]), a device that takes no XDP program, has one already or
/// sends no frames of a program, and missing privileges. What the server does is never an error.
pub fn run(
    plan: &Plan,
    workload: &Workload,
    path: &Path,
    cpus: &[usize],
    stop: &AtomicBool,
    live: &Live,
) -> io::Result<Measured> {
    let processors = processors(cpus)?;
    let parameters = Parameters::new(plan, workload, path, processors.len())
        .map_err(|refusal| io::Error::new(io::ErrorKind::Unsupported, refusal))?;
    let mut programs = Programs::load(&parameters, path)?;
    let before = Counters::read(&path.device)?;
    let start_ns = clock::monotonic_ns() + LEAD_NS;
    let schedule = Schedule::with_model(start_ns, plan.rate_qps, plan.duration_ns, plan.model);
    let mut stats = Stats::new(schedule);
    programs.accounts.start(&schedule, &processors);
    let generator = Generator {
        program: programs.generator.as_fd(),
        frame_octets: parameters.frame_octets as usize,
        batch: batch(plan.rate_qps / processors.len() as u64),
        prioritized: plan.prioritized,
    };
    let listen_ns = plan.listen_ns.max(plan.timeout_ns);
    let mut supervisor = Supervisor {
        lanes: processors.iter().map(|_| Lane::default()).collect(),
        processors: &processors,
        accounts: &programs.accounts,
        schedule,
        listen_until_ns: schedule.due_ns(schedule.queries.saturating_sub(1)).saturating_add(listen_ns),
        interrupted: false,
    };
    let (doubts, accounts) = (&mut programs.doubts, &programs.accounts);
    let mut reporter = Reporter::new(live);
    let cpu_ns = supervisor.run(&generator, stop, &mut || {
        let judged = doubts.judge(workload, accounts, &mut stats);
        reporter.tell_counts(clock::monotonic_ns(), || accounts.counts(&stats));
        judged
    })?;
    let interrupted = supervisor.interrupted;
    let accounts = &programs.accounts;
    let losses = Counters::read(&path.device)?.since(&before, accounts.taken(), accounts.passed());
    programs.accounts.add_to(&mut stats);
    let send_error = note_losses(&mut stats, &losses, path, &processors)?;
    let own_drops = programs.accounts.own_drops() + losses.receiving;
    reporter.finish(&stats, own_drops);
    Ok(Measured {
        schedule,
        stats,
        socket_drops: own_drops,
        wrong_queue: 0,
        icmp_errors: 0,
        fallback: (programs.sink.mode() == Mode::Generic).then_some("XDP in generic mode"),
        interrupted,
        cpu_ns,
        send_error,
    })
}

/// The programs of a trial. The sink goes from the device when this is dropped.
struct Programs {
    accounts: Accounts,
    doubts: Doubts,
    generator: ProgramFd,
    sink: Attached,
    _object: Object,
}

impl Programs {
    fn load(parameters: &Parameters, path: &Path) -> Result<Self, BpfError> {
        let processors = bpf::processors()?;
        let sizes = Sizes::of(parameters, processors);
        let globals: [(&str, &[u8]); 2] = [("trial", parameters.as_bytes()), ("digits", &digits())];
        let mut object = Object::load("measurer", objects::MEASURER, &globals, &sizes.entries())?;
        let accounts = Accounts::share(&mut object, parameters, &sizes)?;
        let doubts = Doubts::share(&mut object)?;
        let sink = attach(&object.program_fd("sink")?, path.device.index, None)?;
        let generator = object.program_fd("generator")?;
        Ok(Self { accounts, doubts, generator, sink, _object: object })
    }
}

/// The processors of the lanes.
fn processors(cpus: &[usize]) -> io::Result<Vec<usize>> {
    let mut distinct = cpus.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < cpus.len() {
        let message = "the kernel back-end needs a processor of its own for each thread";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let available = cpu::available();
    if let Some(other) = distinct.iter().find(|cpu| !available.contains(cpu)) {
        let message = format!("processor {other} does not exist or may not be used");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(if cpus.is_empty() { available.into_iter().take(1).collect() } else { cpus.to_vec() })
}

/// Takes back what the device refused; the error says how much.
fn note_losses(
    stats: &mut Stats,
    losses: &Losses,
    path: &Path,
    processors: &[usize],
) -> io::Result<Option<io::Error>> {
    let device = &path.device.name;
    // Drivers may forget to count such frames, but then there are answers. Neighbour discovery sends a few of
    // its own.
    let answered = stats.valid + stats.invalid + stats.late;
    if losses.offered < stats.sent.div_ceil(2) && answered + stats.unexpected == 0 {
        let message = format!(
            "device {device} did not send the {} queries: its driver does not send frames of XDP programs; a veth does if \
             its peer has an XDP program, or generic receive offload on (ethtool -K PEER gro on)",
            stats.sent
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    // The device may have refused frames of others, too; what was answered had left.
    let refused = losses.sending.min(stats.sent.saturating_sub(answered));
    if refused == 0 {
        return Ok(None);
    }
    stats.note_send_errors(refused);
    let shared = match queues_shared(&path.device, processors) {
        Some(queues) => format!(
            "; the threads share its queues, of which there are {queues}: make the veth with one for each processor \
             (sextant lab up does), or use one thread"
        ),
        None => String::new(),
    };
    Ok(Some(io::Error::other(format!("device {device} refused {refused} frames (full queue){shared}"))))
}

/// The number of queues, if they are so few that a veth gives two lanes the same: it goes by the processor.
fn queues_shared(device: &Device, processors: &[usize]) -> Option<usize> {
    let queues = device.rx_queues().ok().filter(|_| device.driver().is_ok_and(|driver| driver == "veth"))?;
    let used: BTreeSet<usize> = processors.iter().map(|processor| processor % queues).collect();
    (used.len() < processors.len()).then_some(queues)
}

/// Looks after the lanes: starts them, ends them when all is sent, and has the doubtful answers judged
/// meanwhile.
struct Supervisor<'a> {
    lanes: Vec<Lane>,
    processors: &'a [usize],
    accounts: &'a Accounts,
    schedule: Schedule,
    listen_until_ns: u64,
    interrupted: bool,
}

impl Supervisor<'_> {
    /// Runs the lanes to their end and listens as long as answers may come; returns the lanes' processor time
    /// in ns.
    fn run(
        &mut self,
        generator: &Generator<'_>,
        stop: &AtomicBool,
        judge: &mut dyn FnMut() -> usize,
    ) -> io::Result<u64> {
        let (lanes, processors) = (&self.lanes, self.processors);
        let (used, interrupted) = std::thread::scope(|scope| {
            let work = |(lane, &processor)| scope.spawn(move || Lane::run(lane, generator, processor));
            let threads: Vec<_> = lanes.iter().zip(processors).map(work).collect();
            let interrupted = self.supervise(stop, judge);
            let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<u64>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (threads.into_iter().map(join).sum::<io::Result<u64>>(), interrupted)
        });
        self.interrupted = interrupted;
        let used = used?;
        self.listen(stop, judge);
        // An answer is counted before it is handed over: the last one may be on its way. Then none may be
        // left behind.
        std::thread::sleep(LOOK_EVERY);
        while judge() > 0 {}
        Ok(used)
    }

    /// Waits for the lanes; returns whether they were stopped.
    fn supervise(&self, stop: &AtomicBool, judge: &mut dyn FnMut() -> usize) -> bool {
        let length_ns = self.schedule.end_ns() - self.schedule.start_ns;
        let hopeless_ns = self.schedule.end_ns() + length_ns + SECOND_NS;
        let mut interrupted = false;
        loop {
            judge();
            let failed = self.lanes.iter().any(|lane| lane.has_ended() && !lane.is_ending());
            interrupted |= stop.load(Ordering::Relaxed);
            // Behind by its whole length: void long since, as in engine::lane.
            let all = failed || interrupted || clock::monotonic_ns() > hopeless_ns;
            for (lane, &processor) in self.lanes.iter().zip(self.processors) {
                if all || self.accounts.is_sent(processor) {
                    lane.end();
                }
            }
            if self.lanes.iter().all(Lane::has_ended) {
                return interrupted;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for answers after the last query.
    fn listen(&mut self, stop: &AtomicBool, judge: &mut dyn FnMut() -> usize) {
        while !self.interrupted && !self.accounts.all_answered() {
            if clock::monotonic_ns() >= self.listen_until_ns {
                return;
            }
            self.interrupted = stop.load(Ordering::Relaxed);
            judge();
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
