//! The sockets and threads around the machines, and how they change while they run.

#[cfg(test)]
mod attack;
mod board;
mod bypass;
mod error;
mod gate;
mod generation;
mod inbox;
mod judging;
mod listening;
mod observer;
mod outlet;
mod ports;
mod protection;
mod readings;
mod renewal;
mod rooms;
mod service;
mod sockets;
mod token;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use server_core::cache::{Cache, Flush};
use server_core::machine::Shared;
use server_core::own_sockets::OwnSockets;
use server_core::settings::Settings;
use server_core::stats::Stats;
use streams::{ServerTls, Streams};
use sys::given::GivenSocket;
use sys::poll::Poller;
use sys::udp::UdpSocket;

use crate::config::{Config, ListenProtocol, UpstreamServer};
use crate::log::Log;
use crate::snapshot::{Metric, UpstreamState};
use board::{Report, SharedReport};
use bypass::{Bypass, Queries, Rings};
pub use error::ServerError;
use gate::ConnectionGate;
use inbox::{Event, Inbox};
use judging::Validator;
use listening::{Listening, Plan, stream_limits};
pub use observer::Services;
use outlet::StreamSide;
use ports::{Opener, Ports, Reserved, UpstreamSocket};
use renewal::Renewal;
use rooms::{start_streams, stream_upstreams};
pub use service::Service;
use worker::{NextGeneration, Worker};

/// Threads at most: their numbers have eight bits in the tokens of the streams.
const THREADS_MAX: usize = 256;
/// How long the threads may take to go by another configuration, before it is said to be in force all the
/// same.
const ADOPTION: Duration = Duration::from_secs(2);

/// To be called when a thread ends, whatever the reason.
pub type OnEnd = Arc<dyn Fn() + Send + Sync>;

/// To be called once, when all sockets are open and nothing has been read from them: gives up what only
/// opening takes. The error is one line.
pub type Settle<'s> = &'s mut dyn FnMut() -> Result<(), String>;

/// The running server: its threads with their sockets, and the machine of each thread.
pub struct Server {
    workers: Vec<RunningWorker>,
    /// What each thread waits with, as long as it works.
    pollers: Vec<Weak<Poller>>,
    streams: Streams,
    judging: Validator,
    bypass: Option<Bypass>,
    config: Config,
    shared: Shared,
    listening: Vec<Listening>,
    addresses: Vec<(ListenProtocol, SocketAddr)>,
    generation: u64,
    own_sockets: Arc<OwnSockets>,
    reserved: Reserved,
    ports: Ports,
    renewal: Renewal,
    log: Log,
    /// Sockets of the service manager that no address of the configuration wanted, for the next one.
    given: Vec<GivenSocket>,
}

struct RunningWorker {
    thread: JoinHandle<Result<Stats, ServerError>>,
    inbox: Arc<Inbox>,
    board: Arc<SharedReport>,
}

impl Server {
    /// Opens all sockets and starts the threads. `given` are sockets of the service manager, which are used
    /// where their address is one of the configuration's. `on_end` is called by every thread that ends,
    /// whatever the reason. `settle` is called before anything is read from the network.
    ///
    /// # Errors
    /// An address that cannot be listened on, an upstream server without a route, a certificate that cannot
    /// be used, a limit of the system, or the error of `settle`.
    pub fn start(
        config: &Config,
        mut given: Vec<GivenSocket>,
        services: &Services,
        on_end: &OnEnd,
        settle: Settle<'_>,
    ) -> Result<Self, ServerError> {
        let threads = threads(config)?;
        let inboxes: Arc<[Arc<Inbox>]> = (0..threads)
            .map(|number| Inbox::new(&thread_name(number)).map(Arc::new))
            .collect::<io::Result<_>>()
            .map_err(|error| ServerError::System("make an eventfd", error))?;
        let pollers: Vec<Arc<Poller>> = (0..threads)
            .map(|_| Poller::new().map(Arc::new))
            .collect::<io::Result<_>>()
            .map_err(|error| ServerError::System("make an epoll instance", error))?;
        // Before the threads that hear the network: these need no such capabilities.
        let (bypass, rings) = Bypass::open(config, threads, &services.log)?;
        let streams = start_streams(config, &inboxes)?;
        streams.set_gate(gate(config)?);
        let plan = Plan::open(config, &[], threads, &mut given)?;
        let shared = Shared::new(&config.settings, config.cache_octets, seed()?);
        let reserved = Reserved::of_system();
        let ports = Ports::new(&reserved, config);
        let own_sockets = Arc::new(OwnSockets::new());
        let opener = Opener::new(ports.clone(), own_sockets.clone(), seed()?);
        let renewal = Renewal::start(opener, config.process.clone(), services.log.clone())?;
        let mut server = Self {
            workers: Vec::new(),
            pollers: pollers.iter().map(Arc::downgrade).collect(),
            streams,
            judging: Validator::new(inboxes.clone()),
            bypass,
            config: config.clone(),
            shared: shared.clone(),
            listening: Vec::new(),
            addresses: Vec::new(),
            generation: 0,
            own_sockets,
            reserved,
            ports,
            renewal,
            log: services.log.clone(),
            given,
        };
        let adoptions = server.prepare(config, plan, &shared, 0, settle)?;
        let parts = adoptions.into_iter().zip(pollers).zip(rings).zip(inboxes.iter());
        for (number, (((first, poller), rings), inbox)) in parts.enumerate() {
            match server.spawn(number, (first, poller, rings), inbox, services, on_end.clone()) {
                Ok(worker) => server.workers.push(worker),
                Err(error) => {
                    let _ = server.stop();
                    return Err(error);
                }
            }
        }
        server.listen_past_stack();
        protection::warn(&server.config, &server.ports, &server.log);
        Ok(server)
    }

    /// The addresses it answers on, with the ports that were free where the configuration left the choice.
    pub fn addresses(&self) -> &[(ListenProtocol, SocketAddr)] {
        &self.addresses
    }

    /// The number of worker threads; a reload does not change it.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Goes on with another configuration, without losing a query: what has begun ends with the old one. The
    /// number of threads and their processors stay. What the cache holds stays unless other servers are asked
    /// from now on.
    ///
    /// # Errors
    /// As [`Server::start`]; the old configuration goes on then.
    pub fn reload(&mut self, config: &Config) -> Result<(), ServerError> {
        // All that can fail comes first and changes nothing, so that a reload is whole or nothing.
        let given: io::Result<Vec<GivenSocket>> = self.given.iter().map(GivenSocket::try_clone).collect();
        let mut given = given.map_err(|error| ServerError::System("duplicate a socket", error))?;
        let plan = Plan::open(config, &self.listening, self.workers.len(), &mut given)?;
        let (shared, gate, generation) = (self.shared_for(config)?, gate(config)?, self.generation + 1);
        let adoptions = self.prepare(config, plan, &shared, generation, &mut || Ok(()))?;
        (self.given, self.shared, self.config, self.generation) = (given, shared, config.clone(), generation);
        self.streams.set_gate(gate);
        protection::warn(&self.config, &self.ports, &self.log);
        self.bypass.iter().for_each(Bypass::stop_repeating);
        for (worker, adoption) in self.workers.iter().zip(adoptions) {
            worker.inbox.push(Event::Adopt(Box::new(adoption)));
        }
        // Only now: the workers know the listeners when the first query comes.
        self.listen_past_stack();
        // What is asked after this has been told must not be answered by the old one. A thread that does not
        // get its processor holds up nobody for ever.
        let deadline = Instant::now() + ADOPTION;
        for worker in &self.workers {
            worker.inbox.wait_adopted(generation, deadline);
        }
        Ok(())
    }

    /// Asks every thread for a sign of life, and returns the names of those that have given none since they
    /// were last asked.
    pub fn silent_threads(&self) -> Vec<String> {
        let workers = self.workers.iter().filter(|worker| worker.inbox.is_silent());
        let silent = workers.map(|worker| worker.inbox.pulse.thread().to_owned());
        silent
            .chain(self.renewal.silent_thread())
            .chain(self.streams.silent_threads())
            .chain(self.judging.silent_threads())
            .collect()
    }

    /// What all threads counted so far; up to a tenth of a second old.
    pub fn stats(&self) -> Stats {
        self.reports().fold(self.own_stats(), |mut total, report| {
            total += report.stats;
            total
        })
    }

    /// How the upstream servers do, in the order of the configuration.
    pub fn upstreams(&self) -> Vec<UpstreamState> {
        let reports: Vec<Report> =
            self.reports().filter(|report| report.generation == self.generation).collect();
        let state = |(number, server): (usize, &UpstreamServer)| {
            let counts = reports.iter().filter_map(|report| report.upstreams.get(number));
            let sockets = self.renewal.is_stale(server).then_some(self.config.settings.asking.ports);
            protection::state(server, &self.ports, sockets, &counts)
        };
        self.config.upstreams.iter().enumerate().map(state).collect()
    }

    /// The cache in force, which all threads share; a reload may replace it.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.shared.cache
    }

    /// Forgets entries of the cache, and what was made of them; returns how many entries.
    pub fn forget(&self, what: &Flush) -> usize {
        let forgotten = self.shared.cache.flush(what);
        self.bypass.iter().for_each(Bypass::forget);
        forgotten
    }

    /// What the streams and the validation did.
    pub fn readings(&self) -> Vec<Metric> {
        let mut readings = readings::stream_readings(&self.streams.counts());
        readings.extend(self.judging.readings());
        readings.extend(self.bypass.iter().flat_map(Bypass::readings));
        readings
    }

    /// Ends all threads and returns what they counted.
    ///
    /// # Errors
    /// The first error of a thread that had ended by itself.
    pub fn stop(self) -> Result<Stats, ServerError> {
        for worker in &self.workers {
            worker.inbox.push(Event::Stop);
        }
        let mut total = Ok(self.own_stats());
        for worker in self.workers {
            let ended = worker.thread.join().unwrap_or_else(|_| {
                Err(ServerError::System("go on", io::Error::other("a thread panicked; please report this")))
            });
            match (&mut total, ended) {
                (Ok(total), Ok(stats)) => *total += stats,
                (total @ Ok(_), Err(error)) => *total = Err(error),
                (Err(_), _) => {}
            }
        }
        self.streams.stop();
        total
    }

    fn listen_past_stack(&self) {
        if let Some(bypass) = &self.bypass {
            bypass.listen(&self.addresses);
            bypass.repeat(&self.config, self.generation);
        }
    }

    /// What no worker counts.
    fn own_stats(&self) -> Stats {
        Stats { upstream_socket_failures: self.renewal.failures(), ..Stats::default() }
    }

    fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.workers.iter().map(|worker| worker.board.read())
    }

    /// Opens the sockets towards the upstream servers, settles, and has the room of the streams follow the
    /// plan, which reads from then on. After this nothing can fail: the workers only need to be told. On an
    /// error nothing has changed.
    fn prepare(
        &mut self,
        config: &Config,
        plan: Plan,
        shared: &Shared,
        generation: u64,
        settle: Settle<'_>,
    ) -> Result<Vec<NextGeneration>, ServerError> {
        let threads = plan.open.len();
        let seeds: Vec<[u8; 32]> = (0..threads).map(|_| seed()).collect::<Result<_, _>>()?;
        let tls = config.tls.as_ref().map(|files| ServerTls::load(&files.certificate, &files.key));
        let tls = tls.transpose().map_err(ServerError::Tls)?;
        let ports = Ports::new(&self.reserved, config);
        let mut opener = Opener::new(ports.clone(), self.own_sockets.clone(), seed()?);
        let mut open = |_| sockets::upstream_sockets(config, &mut opener);
        let upstreams: Vec<_> = (0..threads).map(&mut open).collect::<Result<_, _>>()?;
        let queries: Vec<Queries> = match &self.bypass {
            Some(bypass) => bypass.queries(config, &upstreams),
            None => (0..threads).map(|_| Queries::default()).collect(),
        };
        self.watch(generation, &plan.open, &upstreams)?;
        let on_streams = stream_upstreams(config, threads)?;
        let judge = self.judging.prepare(config, generation, &on_streams)?;
        self.streams.set_upstreams(generation, on_streams).map_err(ServerError::StreamUpstream)?;
        settle().map_err(ServerError::Privileges)?;
        self.streams.listen(plan.streams, tls, stream_limits(config)).map_err(ServerError::Streams)?;
        let settings = Arc::new(Settings {
            own_sockets: self.own_sockets.clone(),
            upstreams: rooms::limited(config, threads),
            ..config.settings.clone()
        });
        self.addresses = plan.listening.iter().map(|known| (known.listen.protocol, known.address)).collect();
        self.listening = plan.listening;
        let inherits = same_servers(&self.config.upstreams, &config.upstreams);
        let servers: Arc<[UpstreamServer]> = config.upstreams.clone().into();
        let mut adoptions = Vec::new();
        let parts = plan.open.into_iter().zip(upstreams).zip(queries).zip(seeds);
        for (number, (((open, upstreams), queries), seed)) in parts.enumerate() {
            adoptions.push(NextGeneration {
                generation,
                settings: settings.clone(),
                shared: shared.clone(),
                seed,
                upstreams,
                exchange: self.renewal.exchange(&servers, &ports),
                inherits: inherits.clone(),
                queries,
                judge: judge.clone(),
                upstream_addresses: config.upstreams.iter().map(|upstream| upstream.address).collect(),
                listener_addresses: self.addresses.iter().map(|&(_, address)| address).collect(),
                open,
                keep: plan.keep.clone(),
                close: plan.close.clone(),
                probes: number == 0,
            });
        }
        self.ports = ports;
        Ok(adoptions)
    }

    /// Has every thread wait for the sockets that it will go on with. A thread that has ended goes on with
    /// nothing.
    fn watch(
        &self,
        generation: u64,
        listeners: &[Vec<(usize, UdpSocket, usize)>],
        upstreams: &[Vec<Vec<UpstreamSocket>>],
    ) -> Result<(), ServerError> {
        for ((poller, listeners), upstreams) in self.pollers.iter().zip(listeners).zip(upstreams) {
            let ended = || io::Error::other("a thread has ended");
            let poller = poller.upgrade().ok_or_else(ended);
            poller
                .and_then(|poller| worker::watch(&poller, generation, listeners, upstreams))
                .map_err(|error| ServerError::System("wait for a socket", error))?;
        }
        Ok(())
    }

    /// What machines of another configuration share: the same where nothing speaks against it.
    fn shared_for(&self, config: &Config) -> Result<Shared, ServerError> {
        let (old, new) = (&self.config, config);
        let mut shared = Shared::new(&new.settings, 0, seed()?);
        shared.cookies = self.shared.cookies.clone();
        let same_answers = old.upstreams == new.upstreams
            && old.anchors == new.anchors
            && old.settings.groups == new.settings.groups
            && old.settings.routes == new.settings.routes
            && old.cache_octets == new.cache_octets;
        shared.cache = if same_answers {
            self.shared.cache.clone()
        } else {
            Arc::new(Cache::new(new.cache_octets, seed()?))
        };
        if old.settings.rate == new.settings.rate {
            shared.buckets.clone_from(&self.shared.buckets);
            shared.proven_buckets.clone_from(&self.shared.proven_buckets);
        }
        Ok(shared)
    }

    fn spawn(
        &self,
        number: usize,
        (first, poller, rings): (NextGeneration, Arc<Poller>, Rings),
        inbox: &Arc<Inbox>,
        services: &Services,
        on_end: OnEnd,
    ) -> Result<RunningWorker, ServerError> {
        let (board, probes) = (Arc::new(SharedReport::default()), first.probes);
        let mut worker = Worker::new(
            first,
            poller,
            rings,
            StreamSide::new(self.streams.handle(), number),
            services.clone(),
            inbox.clone(),
            board.clone(),
        )?;
        let cpus = &self.config.cpus;
        let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
        let process = self.config.process.clone();
        let run = move || {
            let _notice = OnDrop(on_end);
            crate::privileges::shed_thread(&process)
                .map_err(|error| ServerError::System("give up the capabilities of a thread", error))?;
            if let Some(cpu) = cpu {
                sys::cpu::pin(cpu)
                    .map_err(|error| ServerError::System("pin a thread to its processor", error))?;
            }
            worker.probe(probes);
            worker.run()
        };
        let thread = std::thread::Builder::new()
            .name(thread_name(number))
            .spawn(run)
            .map_err(|error| ServerError::System("start a thread", error))?;
        Ok(RunningWorker { thread, inbox: inbox.clone(), board })
    }
}

/// The name of the thread with this number.
fn thread_name(number: usize) -> String {
    format!("dns64d-{number}")
}

/// Who may connect over streams.
fn gate(config: &Config) -> Result<Arc<ConnectionGate>, ServerError> {
    Ok(Arc::new(ConnectionGate::new(config, [seed()?, seed()?])))
}

/// How many threads the configuration asks for.
fn threads(config: &Config) -> Result<usize, ServerError> {
    let processors = sys::cpu::available();
    if let Some(&cpu) = config.cpus.iter().find(|cpu| !processors.contains(cpu)) {
        return Err(ServerError::Processor(cpu));
    }
    Ok(match (config.threads, config.cpus.len()) {
        (0, 0) => processors.len(),
        (0, cpus) => cpus,
        (threads, _) => threads,
    }
    .clamp(1, THREADS_MAX))
}

/// Calls a function at the end of a thread, a panic included.
struct OnDrop(OnEnd);

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// For each server of a configuration its number in the one before, if it is asked in the same way.
fn same_servers(before: &[UpstreamServer], now: &[UpstreamServer]) -> Vec<Option<usize>> {
    now.iter().map(|server| before.iter().position(|known| known == server)).collect()
}

/// A secret of the operating system's.
fn seed() -> Result<[u8; 32], ServerError> {
    sys::random::secret().map_err(|error| ServerError::System("draw a secret", error))
}
