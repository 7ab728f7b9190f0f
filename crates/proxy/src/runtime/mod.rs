//! The sockets and threads around the machines.

mod outlet;
mod sockets;
mod tcp_clients;
mod tcp_upstreams;
mod worker;

use std::fmt;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use net::poll::Waker;

use super::config::Config;
use super::stats::Stats;
use sockets::Sockets;
use worker::Worker;

/// Why the server did not start or did not go on.
#[derive(Debug)]
pub enum ServerError {
    /// Another program answers on this address.
    InUse(SocketAddr),
    /// This address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// There is no way to this upstream server.
    Upstream(SocketAddr, io::Error),
    /// The process may not have so many sockets.
    Files(io::Error),
    /// There is no such processor, or it may not be used.
    Processor(usize),
    /// The system refused something else, named here.
    System(&'static str, io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(address) => {
                write!(
                    f,
                    "cannot listen on {address}: the port is in use by another program; stop it or choose another"
                )
            }
            Self::Listen(address, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot listen on {address}: {error}; ports below 1024 need CAP_NET_BIND_SERVICE")
            }
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Upstream(address, error) => write!(f, "no way to upstream server {address}: {error}"),
            Self::Files(error) => {
                write!(
                    f,
                    "cannot open all sockets: {error}; raise the limit (ulimit -n) or lower threads or upstream.ports"
                )
            }
            Self::Processor(cpu) => {
                write!(
                    f,
                    "processor {cpu} of cpus may not be used; this process has {:?}",
                    net::cpu::available()
                )
            }
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A server that runs.
pub struct Server {
    addresses: Vec<SocketAddr>,
    workers: Vec<RunningWorker>,
}

struct RunningWorker {
    thread: JoinHandle<Result<Stats, ServerError>>,
    waker: Arc<Waker>,
}

impl Server {
    /// Opens all sockets and starts the threads. `on_end` is called by every thread that ends, whatever the reason.
    ///
    /// # Errors
    /// An address that cannot be listened on, an upstream server without a route, or a limit of the system.
    pub fn start(config: &Config, on_end: impl Fn() + Clone + Send + 'static) -> Result<Self, ServerError> {
        let processors = net::cpu::available();
        if let Some(&cpu) = config.cpus.iter().find(|cpu| !processors.contains(cpu)) {
            return Err(ServerError::Processor(cpu));
        }
        let threads = match (config.threads, config.cpus.len()) {
            (0, 0) => processors.len(),
            (0, cpus) => cpus,
            (threads, _) => threads,
        };
        let Sockets { addresses, threads: sockets } = Sockets::open(config, threads)?;
        let own_sockets = sockets::upstream_addresses(&sockets)?;
        let mut server = Self { addresses, workers: Vec::new() };
        for (index, sockets) in sockets.into_iter().enumerate() {
            let mut config = config.clone();
            config.settings.own_sockets = own_sockets.clone();
            match spawn(&config, index, sockets, on_end.clone()) {
                Ok(worker) => server.workers.push(worker),
                Err(error) => {
                    let _ = server.stop();
                    return Err(error);
                }
            }
        }
        Ok(server)
    }

    /// The addresses it answers on, with the ports that were free where the configuration left the choice.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Ends all threads and returns what they counted.
    ///
    /// # Errors
    /// The first error of a thread that had ended by itself.
    pub fn stop(self) -> Result<Stats, ServerError> {
        for worker in &self.workers {
            worker.waker.wake();
        }
        let mut total = Ok(Stats::default());
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
        total
    }
}

fn spawn(
    config: &Config,
    index: usize,
    sockets: sockets::ThreadSockets,
    on_end: impl Fn() + Send + 'static,
) -> Result<RunningWorker, ServerError> {
    let waker = Arc::new(Waker::new().map_err(|error| ServerError::System("make an eventfd", error))?);
    let worker = Worker::new(config, sockets, waker.clone(), seed()?)?;
    let cpu = (!config.cpus.is_empty()).then(|| config.cpus[index % config.cpus.len()]);
    let run = move || {
        let _notice = OnDrop(on_end);
        if let Some(cpu) = cpu {
            net::cpu::pin(cpu)
                .map_err(|error| ServerError::System("pin a thread to its processor", error))?;
        }
        worker.run()
    };
    let thread = std::thread::Builder::new()
        .name(format!("dns64d-{index}"))
        .spawn(run)
        .map_err(|error| ServerError::System("start a thread", error))?;
    Ok(RunningWorker { thread, waker })
}

/// Calls a function at the end of a thread, a panic included.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// A secret of the operating system's.
fn seed() -> Result<[u8; 32], ServerError> {
    let mut seed = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut seed))
        .map_err(|error| ServerError::System("read /dev/urandom", error))?;
    Ok(seed)
}
