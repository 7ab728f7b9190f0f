//! A thread that opens and closes upstream sockets, so that no worker spends the time: each socket is used
//! for one burst of queries.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use streams::Pulse;

use super::ServerError;
use super::ports::{Opener, Ports, UpstreamSocket};
use crate::config::{Level, Process, UpstreamServer};
use crate::log::Log;

/// The name of the thread.
const THREAD: &str = "dns64d-ports";

/// New sockets that lie ready for each upstream server, and for each thread once more where it works.
const READY: usize = 12;
/// Between two rounds.
const ROUND: Duration = Duration::from_millis(2);
/// New sockets for each thread in a round: some 5,000 a second, which take a few percent of one processor.
/// Above that rate a socket is used for several bursts.
const OPENED_IN_A_ROUND: usize = 12;
/// After an error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// What one worker's generation and the thread exchange: new sockets for used ones.
pub(super) struct Exchange {
    servers: Arc<[UpstreamServer]>,
    ports: Ports,
    stock: Mutex<Stock>,
    idle: Arc<AtomicBool>,
    thread: Thread,
}

#[derive(Default)]
struct Stock {
    /// New ones, by the number of their server.
    ready: Vec<Vec<UpstreamSocket>>,
    used: Vec<UpstreamSocket>,
}

impl Exchange {
    /// Hands over used sockets, which are closed, and takes what is ready for the servers of which `fresh`
    /// has none.
    pub fn trade(&self, used: &mut Vec<UpstreamSocket>, fresh: &mut [Vec<UpstreamSocket>]) {
        let mut stock = self.stock();
        stock.used.append(used);
        for (fresh, ready) in fresh.iter_mut().zip(&mut stock.ready) {
            if fresh.is_empty() {
                mem::swap(fresh, ready);
            }
        }
        drop(stock);
        if self.idle.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// What is done in a round; whether there was something to do. A server that no socket can be opened for
    /// keeps no other from new ones.
    fn work(&self, opener: &mut Opener, failed: &mut Vec<Failed>) -> bool {
        let mut stock = self.stock();
        let used = mem::take(&mut stock.used);
        let counts: Vec<usize> = stock.ready.iter().map(Vec::len).collect();
        drop(stock);
        let mut worked = !used.is_empty();
        drop(used);
        let mut left = OPENED_IN_A_ROUND;
        for (number, server) in self.servers.iter().enumerate().filter(|(_, server)| !server.is_stream_only())
        {
            let missing = READY.saturating_sub(counts[number]).min(left);
            for _ in 0..missing {
                match opener.open(server) {
                    Ok(socket) => self.stock().ready[number].push(socket),
                    Err(error) => {
                        failed.push(Failed { server: server.clone(), error });
                        break;
                    }
                }
                left -= 1;
                worked = true;
            }
        }
        worked
    }

    /// Nothing that is locked here can be left half done by a panic.
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that no socket could be opened for.
struct Failed {
    server: UpstreamServer,
    error: std::io::Error,
}

/// The thread. It ends when this is dropped.
pub(super) struct Renewal {
    shared: Arc<Shared>,
    pulse: Pulse,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Those that a generation still has.
    exchanges: Mutex<Vec<Weak<Exchange>>>,
    idle: Arc<AtomicBool>,
    end: AtomicBool,
    /// Sockets that could not be opened.
    failures: AtomicU64,
    /// The servers whose sockets are not renewed since the last round.
    stale: Mutex<Vec<UpstreamServer>>,
}

impl Renewal {
    /// Starts the thread. `opener` has the secret that it draws from.
    pub fn start(mut opener: Opener, process: Process, log: Log) -> Result<Self, ServerError> {
        let (shared, pulse) = (Arc::new(Shared::default()), Pulse::new(THREAD));
        let run = {
            let (shared, pulse) = (shared.clone(), pulse.clone());
            move || {
                // It needs none; where it cannot give up what it has, it goes on.
                let _ = crate::privileges::shed_thread(&process);
                shared.run(&mut opener, &pulse, &log);
            }
        };
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run);
        let thread = thread.map_err(|error| ServerError::System("start a thread", error))?;
        Ok(Self { shared, pulse, thread: Some(thread) })
    }

    /// Asks the thread for a sign of life, and returns its name if it has given none since it was last asked.
    pub fn silent_thread(&self) -> Option<String> {
        let wake = |_| self.thread.iter().for_each(|thread| thread.thread().unpark());
        self.pulse.is_silent(wake).then(|| THREAD.to_owned())
    }

    /// How many sockets could not be opened so far.
    pub fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }

    /// Whether sockets towards a server cannot be renewed at the moment, so that their ports stay.
    pub fn is_stale(&self, server: &UpstreamServer) -> bool {
        self.shared.stale().contains(server)
    }

    /// Renews the sockets of a generation of one worker from now on, until that is dropped.
    pub fn exchange(&self, servers: &Arc<[UpstreamServer]>, ports: &Ports) -> Option<Arc<Exchange>> {
        let thread = self.thread.as_ref()?.thread().clone();
        let stock = Stock { ready: servers.iter().map(|_| Vec::new()).collect(), used: Vec::new() };
        let exchange = Arc::new(Exchange {
            servers: servers.clone(),
            ports: ports.clone(),
            stock: Mutex::new(stock),
            idle: self.shared.idle.clone(),
            thread: thread.clone(),
        });
        self.shared.exchanges().push(Arc::downgrade(&exchange));
        thread.unpark();
        Some(exchange)
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn exchanges(&self) -> MutexGuard<'_, Vec<Weak<Exchange>>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stale(&self) -> MutexGuard<'_, Vec<UpstreamServer>> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, opener: &mut Opener, pulse: &Pulse, log: &Log) {
        while !self.end.load(Ordering::SeqCst) {
            pulse.answer();
            // Before the look: whoever changes something after it wakes the thread.
            self.idle.store(true, Ordering::SeqCst);
            let mut failed = Vec::new();
            let worked = self.round(opener, &mut failed);
            let has_failed = !failed.is_empty();
            self.note(failed, log);
            match worked {
                // There may be room again; until then the workers go on with the sockets they have.
                _ if has_failed => std::thread::sleep(PAUSE),
                true => std::thread::sleep(ROUND),
                false => std::thread::park(),
            }
        }
    }

    fn round(&self, opener: &mut Opener, failed: &mut Vec<Failed>) -> bool {
        let mut exchanges: Vec<Arc<Exchange>> = Vec::new();
        self.exchanges().retain(|exchange| {
            exchange.upgrade().is_some_and(|exchange| {
                exchanges.push(exchange);
                true
            })
        });
        let mut worked = false;
        for exchange in exchanges {
            match sys::random::secret() {
                Ok(secret) => {
                    opener.renew(&exchange.ports, secret);
                    worked |= exchange.work(opener, failed);
                }
                Err(error) => {
                    let all = exchange.servers.iter().cloned();
                    failed.extend(all.map(|server| Failed { server, error: error.kind().into() }));
                }
            }
        }
        worked
    }

    /// Counts what could not be opened, and says so once, and once when it can be again.
    fn note(&self, failed: Vec<Failed>, log: &Log) {
        self.failures.fetch_add(failed.len() as u64, Ordering::Relaxed);
        let mut now: Vec<UpstreamServer> = Vec::new();
        let mut stale = self.stale();
        for Failed { server, error } in failed {
            if !stale.contains(&server) && !now.contains(&server) {
                let words = format_args!(
                    "no new socket towards an upstream server can be opened ({error}), so that the ports of \
                     queries stay the same: raise LimitNOFILE, or look at upstream.source and the route"
                );
                log.event(Level::Warning, "ports", words, &[("upstream", &server)]);
            }
            if !now.contains(&server) {
                now.push(server);
            }
        }
        for server in stale.iter().filter(|server| !now.contains(server)) {
            let words = "new sockets towards an upstream server can be opened again";
            log.event(Level::Info, "ports", words, &[("upstream", server)]);
        }
        *stale = now;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use server_core::own_sockets::OwnSockets;

    use super::*;
    use crate::config::Config;
    use crate::runtime::ports::Reserved;

    fn start(opener: Opener, config: &Config, log: Log) -> Renewal {
        Renewal::start(opener, config.process.clone(), log).unwrap()
    }

    /// Waits until something is so, or panics.
    fn until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("never: {what}");
    }

    /// Sockets that cannot be opened, as where too many files are: the ports of the server stay. That is
    /// counted and told, and the other server's are renewed all the same.
    #[test]
    fn attack_ports_that_are_not_renewed_are_told() {
        // No interface has the source address of IPv4.
        let text = "upstreams = [\"192.0.2.1:5300\", \"[::1]:5300\"]\nlisten = [\"127.0.0.1:5353\"]\n\
                    [upstream]\nsource = [\"192.0.2.77\"]";
        let config = Config::parse(text, "test").unwrap();
        let ports = Ports::new(&Reserved::of_system(), &config);
        let opener = Opener::new(ports.clone(), Arc::new(OwnSockets::new()), [1; 32]);
        let renewal = start(opener, &config, Log::silent());
        let servers: Arc<[UpstreamServer]> = config.upstreams.clone().into();
        let exchange = renewal.exchange(&servers, &ports).unwrap();
        until("failures", || renewal.failures() >= 2);
        assert!(renewal.is_stale(&servers[0]) && !renewal.is_stale(&servers[1]));
        let mut fresh = vec![Vec::new(), Vec::new()];
        exchange.trade(&mut Vec::new(), &mut fresh);
        assert!(fresh[0].is_empty() && !fresh[1].is_empty());
        drop(exchange);
        until("the end of the trouble", || !renewal.is_stale(&servers[0]));
    }

    #[test]
    fn attack_a_thread_that_renews_no_ports_is_not_alive() {
        let config =
            Config::parse("upstreams = [\"127.0.0.2\"]\nlisten = [\"127.0.0.1:5353\"]", "test").unwrap();
        let ports = Ports::new(&Reserved::of_system(), &config);
        let opener = Opener::new(ports, Arc::new(OwnSockets::new()), [1; 32]);
        let mut renewal = start(opener, &config, Log::silent());
        assert_eq!(renewal.silent_thread(), None);
        // It has nothing to do, and answers all the same.
        until("a sign of life", || renewal.silent_thread().is_none());
        until("another one", || renewal.silent_thread().is_none());
        renewal.shared.end.store(true, Ordering::SeqCst);
        if let Some(thread) = renewal.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
        renewal.silent_thread();
        assert_eq!(renewal.silent_thread().as_deref(), Some(THREAD));
    }

    #[test]
    fn used_sockets_are_closed_and_others_come() {
        let text =
            "upstreams = [\"127.0.0.2:5300\", \"tcp://127.0.0.2:5300\"]\nlisten = [\"127.0.0.1:5353\"]";
        let config = Config::parse(text, "test").unwrap();
        let ports = Ports::new(&Reserved::of_system(), &config);
        let own = Arc::new(OwnSockets::new());
        let renewal = start(Opener::new(ports.clone(), own.clone(), [1; 32]), &config, Log::silent());
        let servers: Arc<[UpstreamServer]> = config.upstreams.clone().into();
        let exchange = renewal.exchange(&servers, &ports).unwrap();
        let mut seen: HashSet<SocketAddr> = HashSet::new();
        let (mut used, mut fresh) = (Vec::new(), vec![Vec::new(), Vec::new()]);
        // Bounded by the number of looks, not by a clock: each lets the thread work for a while.
        for _ in 0..10_000 {
            exchange.trade(&mut used, &mut fresh);
            used.append(&mut fresh[0]);
            seen.extend(used.iter().map(|socket| socket.address));
            assert!(used.iter().all(|socket| own.contains(socket.address)));
            if seen.len() >= 100 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(seen.len() >= 100 && fresh[1].is_empty(), "{}", seen.len());
        let last: Vec<SocketAddr> = used.iter().map(|socket| socket.address).collect();
        exchange.trade(&mut used, &mut fresh);
        drop(renewal);
        drop(exchange);
        assert!(last.iter().all(|&address| !own.contains(address)));
    }
}
