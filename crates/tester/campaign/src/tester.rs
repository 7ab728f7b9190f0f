//! The Tester: one trial, and what the machine's counters said of it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use engine::pacer::{Model, Schedule};
use engine::querylog::QueryLog;
use engine::trial::{Circumstances, ColdCache, OwnFaults, Validity, conclude};
use engine::workload::{Unaskable, Workload, WorkloadSpec};
use hdrhistogram::Histogram;
use measurer::kernel::Refusal;
use measurer::transport::{self, Backend, Sources, UdpConfig, Unavailable};
use measurer::{Measured, Plan, measure};
use record::{Connections, Trial};
use sys::clock::Distance;
use sys::link::device_to;

use super::account::{Reading, Traffic, observation};
use super::auth_probe::{self, Probed};
use super::load_probe;
use super::memory_probe;
use super::target::{Auth, Target, transport_of};
use super::watch::Watch;
use lab::environment::Memory;
use lab::observe::{Observation as Seen, Observer};

/// Why a trial could not be run.
#[derive(Debug)]
pub enum MeasureError {
    /// Names or queries would be too long.
    Queries(Unaskable),
    /// The range holds fewer names than the trial asks.
    TooFewNames {
        /// Names in the range.
        have: u64,
        /// Queries of the trial.
        need: u64,
    },
    /// So short that no query is due.
    NoQueries,
    /// The back-end cannot run here.
    Backend(Unavailable),
    /// The accounts of the trial need more memory than they may have.
    TooLarge {
        /// What they may have in octets.
        allowed_octets: u64,
        /// All of them, in octets.
        octets: u64,
        /// The list of all queries among them, if one is kept, in octets.
        log_octets: u64,
    },
    /// Where names are asked several times, answers are told apart by IDs, of which a source port has 65,536.
    TooFewPorts {
        /// Source ports of the Measurer.
        have: u64,
        /// So many are needed for the queries in flight.
        need: u64,
    },
    /// Sockets could not be opened or broke.
    Io(io::Error),
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queries(error) => error.fmt(f),
            Self::TooFewNames { have, need } => write!(
                f,
                "the range holds {have} names but the trial asks {need}, each once: widen --names, or lower the rate or --duration"
            ),
            Self::TooFewPorts { have, need } => write!(
                f,
                "{have} source ports cannot tell so many queries in flight apart by their IDs: use --ports {need} or more, or a shorter --timeout"
            ),
            Self::NoQueries => {
                f.write_str("no query is due in a trial so short: raise the rate or --duration")
            }
            Self::Backend(error) => error.fmt(f),
            Self::TooLarge { allowed_octets, octets, log_octets } => {
                let (need, allowed) = (octets >> 20, allowed_octets >> 20);
                write!(f, "the queries of the trial need {need} MiB of memory, {allowed} MiB is allowed: ")?;
                if *log_octets > 0 {
                    let log = log_octets >> 20;
                    write!(f, "leave out --queries, --compat-csv and --interval ({log} MiB), or ")?;
                }
                f.write_str("lower the rate, --duration, --timeout or --threads")
            }
            // A reason in words, or what the system says of a socket.
            Self::Io(error) if error.get_ref().is_some() => error.fmt(f),
            Self::Io(error) => write!(f, "the Measurer's sockets failed: {error}"),
        }
    }
}

impl std::error::Error for MeasureError {}

impl MeasureError {
    /// Whether it is for other options to mend: they do not go together, or not with the back-end.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Io(error) => error.get_ref().is_some_and(|why| why.is::<Refusal>()),
            Self::Backend(_) => false,
            _ => true,
        }
    }
}

/// The most memory for the accounts of a trial in octets: a day with eight threads, or every IPv4 address
/// once.
const MEMORY_MAX_OCTETS: u64 = 4 << 30;

/// What the accounts may have: three quarters of what this machine has left, so that the kernel need not kill
/// for it.
fn memory_allowed_octets() -> u64 {
    let left = Memory::now().available_octets.unwrap_or(MEMORY_MAX_OCTETS);
    MEMORY_MAX_OCTETS.min(left / 4 * 3)
}

/// A trial and its distribution.
pub struct TrialRun {
    /// What goes into the record.
    pub trial: Trial,
    /// The latencies of its valid answers in ns.
    pub latency_ns: Histogram<u64>,
    /// Every query, where [`Target::log`] asked for it.
    pub log: Option<QueryLog>,
    /// What was asked.
    pub workload: Workload,
    /// When it was asked, on the clock of the log.
    pub schedule: Schedule,
    /// The start of the schedule in ns since 1970.
    pub start_unix_ns: u64,
}

/// Both halves of RFC 8219's Tester on this machine.
pub struct Tester {
    /// The processors of the Measurer's threads, one each.
    pub cpus: Vec<usize>,
    /// I/O back-end of the Measurer.
    pub backend: Backend,
    /// Source ports of all threads together.
    pub source_ports: usize,
    /// Addresses and ports to send from.
    pub sources: Sources,
    /// Receive buffer of each socket in octets.
    pub receive_buffer_octets: usize,
    /// The index of the next name that was not asked yet.
    pub next_name: u64,
    /// The processors are the Tester's own: no server that matters runs there.
    pub alone: bool,
    /// Set to end a trial.
    pub stop: Arc<AtomicBool>,
    /// What others may see of a trial while it runs.
    pub watch: Arc<Watch>,
    /// The network namespace to ask from; none: this process's.
    pub namespace: Option<String>,
}

/// The names that shall be cached are asked at this rate at most, in q/s: any server can follow.
const WARM_UP_QPS: u64 = 2000;
/// So often at most, as a datagram may get lost.
const WARM_UP_ROUNDS: u32 = 3;
/// The most queries per second that a closed loop has room for.
const CLOSED_LOOP_MAX_QPS: u64 = 2_000_000;
/// Batches of up to 64 queries that the AuthDNS answers between two looks at the schedule: one keeps the
/// Measurer's own delay below about 0.1 ms.
const AUTH_BATCHES_AT_ONCE: usize = 1;

impl Tester {
    /// Runs a trial against the target; `auth` is watched, and served where it is hosted.
    ///
    /// # Errors
    /// [`MeasureError`]; what the server does is never an error.
    pub fn trial(
        &mut self,
        target: &Target,
        auth: Option<&Auth>,
        rate_qps: u64,
        duration_ns: u64,
    ) -> Result<TrialRun, MeasureError> {
        let namespace = self.namespace.clone();
        sys::netns::inside(namespace.as_deref(), || self.trial_here(target, auth, rate_qps, duration_ns))
            .map_err(MeasureError::Io)?
    }

    /// The same in the calling thread's namespace.
    fn trial_here(
        &mut self,
        target: &Target,
        auth: Option<&Auth>,
        rate_qps: u64,
        duration_ns: u64,
    ) -> Result<TrialRun, MeasureError> {
        let spec = WorkloadSpec { first_name: self.next_name, ..target.workload.clone() };
        let workload = Workload::new(spec).map_err(MeasureError::Queries)?;
        let plan = self.plan(target, &workload, rate_qps, duration_ns)?;
        let cold_cache = self.warm_up(&plan, target, auth, &workload).map_err(MeasureError::Io)?;
        let started = SystemTime::now();
        let io = self.io_here(target)?;
        let device = device_to(target.server).ok();
        let observer = Observer::new(&target.pids, &[target.server.port()]).with_device(device);
        let before = Reading::take(&observer, auth);
        let (((measured, probed), load), memory) = memory_probe::beside(target, &self.watch.live, || {
            load_probe::beside(&target.pids, || {
                auth_probe::beside(auth, target, &self.watch.live, || self.measure(&plan, auth, &workload))
            })
        });
        let measured = measured.map_err(MeasureError::Io)?;
        let (seen, traffic) = Reading::take(&observer, auth).since(&before);
        self.next_name = workload.first_name_after(measured.schedule.queries);

        let standing = target.standing();
        let evidence = Circumstances { load, cold_cache, standing, ..Circumstances::default() };
        let circumstances = self.circumstances(target, &measured, (seen, traffic, probed), evidence);
        let start_unix_ns = Distance::read().to_realtime_ns(measured.schedule.start_ns);
        let Measured { schedule, stats, .. } = measured;
        let concluded = conclude(&schedule, &stats, &circumstances, &target.limits, target.validity);
        let transport = target.streams.as_ref().map(transport_of).unwrap_or_default();
        let trial = Trial {
            started_utc: humantime::format_rfc3339_millis(started).to_string(),
            first_name: workload.spec().first_name,
            icmp_errors: measured.icmp_errors,
            io: measured.fallback.map_or(io.clone(), |fallback| format!("{io}: {fallback}")),
            replay: target.replay.clone(),
            connections: concluded.connections.map(|seen| Connections {
                transport,
                server_memory_octets: memory,
                ..seen
            }),
            ..concluded
        };
        Ok(TrialRun {
            trial,
            latency_ns: stats.latency_ns,
            log: stats.log,
            workload,
            schedule,
            start_unix_ns,
        })
    }

    /// The evidence beside the Measurer's counts, with what is known of it already.
    fn circumstances(
        &self,
        target: &Target,
        measured: &Measured,
        (seen, traffic, probed): (Seen, Option<Traffic>, Option<Probed>),
        known: Circumstances,
    ) -> Circumstances {
        // This back-end reads the device's counters itself, and a driver may count the answers that the
        // back-end takes among the dropped.
        let own_account = self.backend == Backend::Kernel;
        let Measured { stats, schedule, .. } = measured;
        let (softnet_drops, discards) = seen.kernel_drops();
        let device_drops = if own_account { 0 } else { seen.own_device_drops(stats.send_errors) };
        let answers = if target.validity == Validity::Compat { stats.valid_compat } else { stats.valid };
        let counts = (stats.sent, answers);
        let duration_s = engine::trial::duration_s(schedule, stats);
        let traffic = (&seen, traffic, probed.as_ref());
        Circumstances {
            own: OwnFaults { device_drops, ..own_faults(measured) },
            observation: Some(observation(traffic, counts, duration_s, target.server.port())),
            softnet_drops,
            device_discards: if own_account { 0 } else { discards },
            auth_late: probed.map(|probed| probed.late).unwrap_or_default(),
            ..known
        }
    }

    /// What the record calls the way in which queries to the target leave.
    ///
    /// # Errors
    /// The back-end cannot run here.
    pub fn io(&self, target: &Target) -> Result<String, MeasureError> {
        sys::netns::inside(self.namespace.as_deref(), || self.io_here(target)).map_err(MeasureError::Io)?
    }

    /// The same in the calling thread's namespace.
    fn io_here(&self, target: &Target) -> Result<String, MeasureError> {
        match &target.streams {
            Some(streams) => Ok(streams.protocol.name().to_owned()),
            None => transport::check(self.backend, target.server).map_err(MeasureError::Backend),
        }
    }

    /// Whether the back-end can run trials of the target, whatever it can do for the self-test, which asks
    /// more plainly.
    ///
    /// # Errors
    /// [`MeasureError`]: what it cannot do.
    pub fn check(&self, target: &Target, rate_qps: u64, duration_ns: u64) -> Result<(), MeasureError> {
        let workload = Workload::new(target.workload.clone()).map_err(MeasureError::Queries)?;
        let plan = self.plan(target, &workload, rate_qps, duration_ns)?;
        sys::netns::inside(self.namespace.as_deref(), || measure::check(&plan, &workload, self.cpus.len()))
            .and_then(|checked| checked)
            .map_err(MeasureError::Io)
    }

    /// What the Measurer's threads are told.
    fn plan(
        &self,
        target: &Target,
        workload: &Workload,
        rate_qps: u64,
        duration_ns: u64,
    ) -> Result<Plan, MeasureError> {
        let have = target.workload.names.size();
        let rate_qps = if target.load.is_closed() {
            // Nobody knows how fast it will get; it gets room for all names, up to a bound.
            let names = if workload.names_needed(1 << 32) > have { have } else { u64::MAX };
            CLOSED_LOOP_MAX_QPS
                .min((u128::from(names) * 1_000_000_000 / u128::from(duration_ns.max(1))) as u64)
        } else {
            rate_qps
        };
        let plan = Plan {
            rate_qps,
            duration_ns,
            timeout_ns: target.timeout_ns,
            listen_ns: target.listen_ns,
            backend: self.backend,
            udp: UdpConfig {
                server: target.server,
                sockets: target.streams.as_ref().map_or(self.source_ports, |streams| streams.connections),
                first_socket: 0,
                sources: self.sources,
                receive_buffer_octets: self.receive_buffer_octets,
            },
            streams: target.streams.clone(),
            prioritized: self.alone,
            log: target.log,
            model: target.load,
        };
        let schedule = Schedule::with_model(0, plan.rate_qps, duration_ns, target.load);
        let need = workload.names_needed(schedule.queries);
        let (memory_octets, allowed_octets) = (plan.memory_octets(self.cpus.len()), memory_allowed_octets());
        match schedule.queries {
            0 => Err(MeasureError::NoQueries),
            _ if need > have => Err(MeasureError::TooFewNames { have, need }),
            _ if memory_octets > allowed_octets => {
                let log_octets = if target.log { QueryLog::memory_octets(schedule.queries) } else { 0 };
                Err(MeasureError::TooLarge { allowed_octets, octets: memory_octets, log_octets })
            }
            _ if workload.is_by_name() => Ok(plan),
            _ => self.enough_ports(&schedule, target, plan.udp.sockets).map(|()| plan),
        }
    }

    /// Whether IDs tell the queries in flight apart (RFC 5452 9.2: of one source, none may share one).
    fn enough_ports(&self, schedule: &Schedule, target: &Target, sockets: usize) -> Result<(), MeasureError> {
        const IDS: u64 = 1 << 16;
        let in_flight = match schedule.model {
            Model::Window { queries } => u64::from(queries) * self.cpus.len().max(1) as u64,
            Model::Experiments { .. } => IDS,
            // Each client has a socket, however many queries it asks.
            Model::Recorded(_) => return Ok(()),
            _ => schedule.due_within(target.timeout_ns).min(schedule.queries),
        };
        let (have, need) = (sockets as u64, in_flight.div_ceil(IDS));
        if need > have { Err(MeasureError::TooFewPorts { have, need }) } else { Ok(()) }
    }

    /// Asks the names that the trial takes for cached, again where an answer got lost; what is missing if
    /// some never came.
    fn warm_up(
        &self,
        plan: &Plan,
        target: &Target,
        auth: Option<&Auth>,
        workload: &Workload,
    ) -> io::Result<Option<ColdCache>> {
        let Some((warm_up, queries)) = workload.warm_up() else { return Ok(None) };
        let rate_qps = plan.rate_qps.clamp(1, WARM_UP_QPS);
        let plan = Plan {
            rate_qps,
            duration_ns: (queries * 1_000_000_000).div_ceil(rate_qps),
            model: Model::Constant,
            log: false,
            ..plan.clone()
        };
        let mut cold = None;
        for _ in 0..WARM_UP_ROUNDS {
            let measured = self.measure(&plan, auth, &warm_up)?;
            let own = Circumstances { own: own_faults(&measured), ..Circumstances::default() };
            // The same rules tell whose fault it was that hold for a trial.
            let judged = conclude(&measured.schedule, &measured.stats, &own, &target.limits, target.validity);
            let without = queries.saturating_sub(target.validity.counted(&judged));
            if without == 0 || measured.interrupted {
                return Ok(None);
            }
            cold = Some(ColdCache { queries, without, tester_fault: judged.void });
        }
        Ok(cold)
    }

    fn measure(&self, plan: &Plan, auth: Option<&Auth>, workload: &Workload) -> io::Result<Measured> {
        let Some(auth) = auth.filter(|auth| auth.hosted) else {
            return measure::run(plan, workload, &self.cpus, None, &self.stop, &self.watch.live);
        };
        let mut services = auth.authority.take_services();
        let mut work = || {
            let polled = services.iter_mut().map(|service| service.poll(AUTH_BATCHES_AT_ONCE).unwrap_or(0));
            polled.sum()
        };
        let measured =
            measure::run(plan, workload, &self.cpus, Some(&mut work), &self.stop, &self.watch.live);
        auth.authority.give_back(services);
        measured
    }

    /// Whether the user asked to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What the Measurer knows of its own losses.
fn own_faults(measured: &Measured) -> OwnFaults {
    OwnFaults {
        socket_drops: measured.socket_drops,
        wrong_queue: measured.wrong_queue,
        device_drops: 0,
        send_error: measured.send_error.as_ref().map(ToString::to_string),
        interrupted: measured.interrupted,
    }
}
