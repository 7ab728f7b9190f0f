//! The AuthDNS over TCP (RFC 7766): one thread, a bounded number of connections, pipelined queries.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::poll::{Events, Interest, Poller, Waker};

use super::connection::{Connection, State};
use super::counters::SharedTraffic;
use super::zone::Zone;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// How often idle connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// The pause after a failed accept (most often too many open files), which would fail again at once.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// The token of the waker; listeners have their index, connections what follows.
const WAKER: u64 = u64::MAX;

/// The bounds of the TCP service.
#[derive(Clone, Copy, Debug)]
pub struct TcpLimits {
    /// Connections at a time; more are closed as soon as they are accepted.
    pub connections: usize,
    /// A connection that has sent no whole query for so long is closed (RFC 7766 6.2.3).
    pub idle_timeout: Duration,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self { connections: 256, idle_timeout: Duration::from_secs(10) }
    }
}

/// Counters that the thread writes and others read.
#[derive(Default)]
pub(super) struct TcpGauge {
    pub traffic: SharedTraffic,
    pub connections: AtomicU64,
    pub refused: AtomicU64,
}

/// Binds a listener; see [`net::tcp::listen`].
///
/// # Errors
/// Likewise.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    net::tcp::listen(address, BACKLOG)
}

/// The handle of the thread; dropping it ends the thread and closes all connections.
pub(super) struct TcpService {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl TcpService {
    /// Starts the thread.
    ///
    /// # Errors
    /// A thread or descriptor cannot be had.
    pub fn start(
        listeners: Vec<TcpListener>,
        limits: TcpLimits,
        zone: Arc<Zone>,
        gauge: Arc<TcpGauge>,
    ) -> io::Result<Self> {
        let (poller, waker, stop) =
            (Poller::new()?, Arc::new(Waker::new()?), Arc::new(AtomicBool::new(false)));
        poller.add(&*waker, WAKER, Interest::Read)?;
        for (token, listener) in (0..).zip(&listeners) {
            poller.add(listener, token, Interest::Read)?;
        }
        let next_token = listeners.len() as u64;
        let server =
            Server { poller, listeners, limits, zone, gauge, connections: HashMap::new(), next_token };
        let stopped = stop.clone();
        let thread =
            std::thread::Builder::new().name("auth-tcp".to_owned()).spawn(move || server.run(&stopped))?;
        Ok(Self { stop, waker, thread: Some(thread) })
    }
}

impl Drop for TcpService {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Server {
    poller: Poller,
    listeners: Vec<TcpListener>,
    limits: TcpLimits,
    zone: Arc<Zone>,
    gauge: Arc<TcpGauge>,
    connections: HashMap<u64, Connection>,
    next_token: u64,
}

impl Server {
    fn run(mut self, stopped: &AtomicBool) {
        let mut events = Events::with_capacity(64);
        let mut swept_at = Instant::now();
        while !stopped.load(Ordering::Relaxed) {
            let timeout = (!self.connections.is_empty()).then_some(SWEEP_EVERY);
            if self.poller.wait(&mut events, timeout).is_err() {
                std::thread::sleep(FAILURE_PAUSE);
            }
            let now = Instant::now();
            for event in events.iter().filter(|event| event.token != WAKER) {
                match usize::try_from(event.token).ok().filter(|&index| index < self.listeners.len()) {
                    Some(index) => self.accept(index, now),
                    None => self.serve(event.token, now),
                }
            }
            if now.duration_since(swept_at) >= SWEEP_EVERY {
                swept_at = now;
                let timeout = self.limits.idle_timeout;
                // Closing a descriptor takes it out of the poller.
                self.connections.retain(|_, connection| now.duration_since(connection.active_at()) < timeout);
            }
        }
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        match self.listeners[listener].accept() {
            Ok(_) if self.connections.len() >= self.limits.connections => {
                self.gauge.refused.fetch_add(1, Ordering::Relaxed);
            }
            Ok((stream, _)) => {
                if self.admit(stream, now).is_ok() {
                    self.gauge.connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(_) => std::thread::sleep(FAILURE_PAUSE),
        }
    }

    fn admit(&mut self, stream: TcpStream, now: Instant) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.poller.add(&stream, self.next_token, Interest::Read)?;
        self.connections.insert(self.next_token, Connection::new(stream, now));
        self.next_token += 1;
        Ok(())
    }

    fn serve(&mut self, token: u64, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let before = connection.state();
        let after = connection.proceed(&self.zone, &self.gauge.traffic, now);
        let interest = match after {
            State::Reading => Interest::Read,
            State::Writing => Interest::Write,
            State::Closed => {
                self.connections.remove(&token);
                return;
            }
        };
        if before != after && self.poller.modify(connection.stream(), token, interest).is_err() {
            self.connections.remove(&token);
        }
    }
}
