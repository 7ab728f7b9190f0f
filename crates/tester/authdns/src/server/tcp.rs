//! The AuthDNS over TCP (RFC 7766): one thread, a bounded number of connections, pipelined queries.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sys::clock;
use sys::poll::{Events, Interest, Poller, Waker};

use super::connection::{Connection, ConnectionContext, State};
use crate::counters::{SharedTraffic, Traffic};
use crate::delayed::Delayed;
use crate::responder::Responder;

/// Connections that wait to be accepted, at least and at most; the kernel has a limit of its own.
const BACKLOG_MIN: usize = 128;
const BACKLOG_MAX: usize = 1 << 16;
/// How often idle connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// Answers that faults may keep waiting.
pub(super) const DELAYED_MAX: usize = 1 << 16;
/// The pause after a failed accept (most often too many open files), which would fail again at once.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// The token of the waker; listeners have their index, connections what follows.
const WAKER: u64 = u64::MAX;

/// The bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at a time over TCP; more are closed as soon as they are accepted. As many again over TLS,
    /// HTTPS and QUIC together: more take the places of those that have been idle for the longest time.
    pub connections: usize,
    /// A connection that has sent no whole query for so long is closed (RFC 7766 6.2.3).
    pub idle_timeout: Duration,
}

impl Default for ConnectionLimits {
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

/// Binds a listener; see [`sys::tcp::listen`].
///
/// # Errors
/// Likewise.
pub(super) fn listen(address: SocketAddr, limits: ConnectionLimits) -> io::Result<TcpListener> {
    sys::tcp::listen(address, limits.connections.clamp(BACKLOG_MIN, BACKLOG_MAX) as i32)
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
        limits: ConnectionLimits,
        responder: Responder,
        gauge: Arc<TcpGauge>,
    ) -> io::Result<Self> {
        let (poller, waker, stop) =
            (Poller::new()?, Arc::new(Waker::new()?), Arc::new(AtomicBool::new(false)));
        poller.add(&*waker, WAKER, Interest::Read)?;
        for (token, listener) in (0..).zip(&listeners) {
            poller.add(listener, token, Interest::Read)?;
        }
        let next_token = listeners.len() as u64;
        let server = Server {
            poller,
            listeners,
            limits,
            responder,
            delayed: Delayed::new(DELAYED_MAX),
            gauge,
            connections: HashMap::new(),
            next_token,
        };
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

struct Server {
    poller: Poller,
    listeners: Vec<TcpListener>,
    limits: ConnectionLimits,
    responder: Responder,
    delayed: Delayed<(u64, Box<[u8]>)>,
    gauge: Arc<TcpGauge>,
    connections: HashMap<u64, Connection>,
    next_token: u64,
}

impl Server {
    fn run(mut self, stopped: &AtomicBool) {
        let mut events = Events::with_capacity(64);
        let mut swept_ns = clock::monotonic_ns();
        while !stopped.load(Ordering::Relaxed) {
            if self.poller.wait(&mut events, self.timeout()).is_err() {
                std::thread::sleep(FAILURE_PAUSE);
            }
            let now_ns = clock::monotonic_ns();
            self.send_due(now_ns);
            for event in events.iter().filter(|event| event.token != WAKER) {
                match usize::try_from(event.token).ok().filter(|&index| index < self.listeners.len()) {
                    Some(index) => self.accept(index, now_ns),
                    None => self.serve(event.token, now_ns),
                }
            }
            if now_ns - swept_ns >= SWEEP_EVERY.as_nanos() as u64 {
                swept_ns = now_ns;
                let limit_ns = u64::try_from(self.limits.idle_timeout.as_nanos()).unwrap_or(u64::MAX);
                // Closing a descriptor takes it out of the poller.
                self.connections.retain(|_, connection| connection.idle_ns(now_ns) < limit_ns);
            }
        }
        self.count_undelivered(self.delayed.len());
    }

    /// How long to wait for events: until idle connections are looked for or a delayed answer is due.
    fn timeout(&self) -> Option<Duration> {
        let due_ns = self.delayed.next_due_ns();
        let due = due_ns.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(clock::monotonic_ns())));
        due.into_iter().chain((!self.connections.is_empty()).then_some(SWEEP_EVERY)).min()
    }

    /// Sends the delayed answers that are due to those connections that still are.
    fn send_due(&mut self, now_ns: u64) {
        while let Some((token, octets)) = self.delayed.pop_due(now_ns) {
            let taken = self.connections.get_mut(&token).is_some_and(|connection| connection.add(&octets));
            if taken {
                self.gauge.traffic.add(Traffic { answers: 1, ..Traffic::default() });
                self.serve(token, now_ns);
            } else {
                self.count_undelivered(1);
            }
        }
    }

    fn count_undelivered(&self, answers: usize) {
        self.gauge.traffic.add(Traffic { undelivered: answers as u64, ..Traffic::default() });
    }

    fn accept(&mut self, listener: usize, now_ns: u64) {
        match self.listeners[listener].accept() {
            Ok(_) if self.connections.len() >= self.limits.connections => {
                self.gauge.refused.fetch_add(1, Ordering::Relaxed);
            }
            Ok((stream, client)) => {
                if self.admit(stream, client, now_ns).is_ok() {
                    self.gauge.connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(_) => std::thread::sleep(FAILURE_PAUSE),
        }
    }

    fn admit(&mut self, stream: TcpStream, client: SocketAddr, now_ns: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.poller.add(&stream, self.next_token, Interest::Read)?;
        self.connections.insert(self.next_token, Connection::new(stream, client, now_ns));
        self.next_token += 1;
        Ok(())
    }

    fn serve(&mut self, token: u64, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let before = connection.state();
        let desk =
            ConnectionContext { responder: &mut self.responder, delayed: &mut self.delayed, token, now_ns };
        let after = connection.proceed(desk, &self.gauge.traffic);
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
