//! A thread that opens and closes upstream sockets, so that no worker spends the time: each socket is used
//! for one burst of queries.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use super::ServerError;
use super::ports::{Opener, Ports, UpstreamSocket};
use crate::config::{Process, UpstreamServer};

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

    /// What is done in a round; whether there was something to do.
    fn work(&self, opener: &mut Opener) -> std::io::Result<bool> {
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
                let socket = opener.open(server)?;
                self.stock().ready[number].push(socket);
            }
            left -= missing;
            worked |= missing > 0;
        }
        Ok(worked)
    }

    /// Nothing that is locked here can be left half done by a panic.
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. It ends when this is dropped.
pub(super) struct Renewal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Those that a generation still has.
    exchanges: Mutex<Vec<Weak<Exchange>>>,
    idle: Arc<AtomicBool>,
    end: AtomicBool,
}

impl Renewal {
    /// Starts the thread. `opener` has the secret that it draws from.
    pub fn start(mut opener: Opener, process: Process) -> Result<Self, ServerError> {
        let shared = Arc::new(Shared::default());
        let run = {
            let shared = shared.clone();
            move || {
                // It needs none; where it cannot give up what it has, it goes on.
                let _ = crate::privileges::shed_thread(&process);
                shared.run(&mut opener);
            }
        };
        let thread = std::thread::Builder::new().name("dns64d-ports".to_owned()).spawn(run);
        let thread = thread.map_err(|error| ServerError::System("start a thread", error))?;
        Ok(Self { shared, thread: Some(thread) })
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

    fn run(&self, opener: &mut Opener) {
        while !self.end.load(Ordering::SeqCst) {
            // Before the look: whoever changes something after it wakes the thread.
            self.idle.store(true, Ordering::SeqCst);
            match self.round(opener) {
                Ok(true) => std::thread::sleep(ROUND),
                Ok(false) => std::thread::park(),
                // There may be room again; until then the workers go on with the sockets they have.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn round(&self, opener: &mut Opener) -> std::io::Result<bool> {
        let mut exchanges: Vec<Arc<Exchange>> = Vec::new();
        self.exchanges().retain(|exchange| {
            exchange.upgrade().is_some_and(|exchange| {
                exchanges.push(exchange);
                true
            })
        });
        let mut worked = false;
        for exchange in exchanges {
            opener.renew(&exchange.ports, sys::random::secret()?);
            worked |= exchange.work(opener)?;
        }
        Ok(worked)
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

    #[test]
    fn used_sockets_are_closed_and_others_come() {
        let text =
            "upstreams = [\"127.0.0.2:5300\", \"tcp://127.0.0.2:5300\"]\nlisten = [\"127.0.0.1:5353\"]";
        let config = Config::parse(text, "test").unwrap();
        let ports = Ports::new(&Reserved::of_system(), &config);
        let own = Arc::new(OwnSockets::new());
        let renewal =
            Renewal::start(Opener::new(ports.clone(), own.clone(), [1; 32]), config.process.clone()).unwrap();
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
