//! A thread that reflects: receive a batch, answer, send.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use sys::poll::{Events, Interest, Poller};
use sys::udp::{ReceiveBatch, SendBatch, UdpSocket};

use super::pacing::Arrivals;
use super::{EchoConfig, Gauge, Rule};

/// Messages in one system call.
const BATCH: usize = 64;
/// Longer datagrams are no queries that anyone sends.
const DATAGRAM_OCTETS_MAX: usize = 2048;
/// The longest message that joined datagrams come in.
const JOINED_OCTETS_MAX: usize = 65_535;
/// Answers sent together where they leave as segments: several messages of 64 each.
const SEGMENTED_BATCH: usize = 512;
/// How long an idle thread sleeps before it looks whether it shall stop.
const IDLE: Duration = Duration::from_millis(50);
/// The pause after a socket reported an error, so that a broken one does not keep a processor busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// The thread's state, all of it allocated before the first query.
pub(super) struct Worker {
    sockets: Vec<Arc<UdpSocket>>,
    poller: Poller,
    queries: ReceiveBatch,
    answers: SendBatch,
    rule: Rule,
    work_ns: u64,
    spin: bool,
    gauge: Arc<Gauge>,
    arrivals: Arrivals,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct Tally {
    received: u64,
    answered: u64,
    ignored: u64,
    not_sent: u64,
}

impl Worker {
    /// Prepares a thread for its sockets.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn new(
        sockets: Vec<Arc<UdpSocket>>,
        config: &EchoConfig,
        gauge: Arc<Gauge>,
        arrivals: Arrivals,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (index, socket) in sockets.iter().enumerate() {
            poller.add(&**socket, index as u64, Interest::Read)?;
        }
        let joined = config.segments && !config.pacing;
        let octets_each = if joined { JOINED_OCTETS_MAX } else { DATAGRAM_OCTETS_MAX };
        let answers = if config.segments {
            SendBatch::new(SEGMENTED_BATCH, DATAGRAM_OCTETS_MAX).segmenting()
        } else {
            SendBatch::new(BATCH, DATAGRAM_OCTETS_MAX)
        };
        let queries = ReceiveBatch::new(BATCH, octets_each);
        let EchoConfig { rule, spin, work_ns, .. } = *config;
        Ok(Self { sockets, poller, queries, answers, rule, work_ns, spin, gauge, arrivals, stop })
    }

    /// Starts the thread, on processor `cpu` if one is given; it returns the arrivals when it is stopped.
    ///
    /// # Errors
    /// The processor may not be used, or there are too many threads.
    pub fn start(self, index: usize, cpu: Option<usize>) -> io::Result<JoinHandle<Arrivals>> {
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("echo-{index}")).spawn(move || {
            let begun = cpu.map_or(Ok(()), sys::cpu::pin);
            let failed = begun.is_err();
            // The starter waits for this, so it is there.
            let _ = ready.send(begun);
            if failed { self.arrivals } else { self.run() }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at its start")))?;
        Ok(thread)
    }

    fn run(mut self) -> Arrivals {
        let mut events = Events::with_capacity(self.sockets.len());
        while !self.stop.load(Ordering::Relaxed) {
            match self.serve() {
                Ok(0) if !self.spin => {
                    // Nothing that this reports is worse than nothing received, which is seen next.
                    let _ = self.poller.wait(&mut events, Some(IDLE));
                }
                Ok(_) => {}
                Err(_) => {
                    self.gauge.receive_failures.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(FAILURE_PAUSE);
                }
            }
        }
        self.arrivals
    }

    /// Takes one batch from each socket and answers it; returns the number of messages.
    fn serve(&mut self) -> io::Result<usize> {
        let mut messages = 0;
        for socket in &self.sockets {
            let received = self.queries.receive(socket)?;
            if received == 0 {
                continue;
            }
            messages += received;
            compute(self.work_ns * received as u64);
            let (rule, arrivals) = (self.rule, &mut self.arrivals);
            let tally = reflect(rule, socket, &self.queries, &mut self.answers, arrivals);
            self.gauge.received.fetch_add(tally.received, Ordering::Relaxed);
            self.gauge.answered.fetch_add(tally.answered, Ordering::Relaxed);
            self.gauge.ignored.fetch_add(tally.ignored, Ordering::Relaxed);
            self.gauge.not_sent.fetch_add(tally.not_sent, Ordering::Relaxed);
        }
        Ok(messages)
    }
}

/// Keeps the processor for so long.
fn compute(work_ns: u64) {
    if work_ns > 0 {
        let end_ns = sys::clock::monotonic_ns() + work_ns;
        while sys::clock::monotonic_ns() < end_ns {
            std::hint::spin_loop();
        }
    }
}

fn reflect(
    rule: Rule,
    socket: &UdpSocket,
    queries: &ReceiveBatch,
    answers: &mut SendBatch,
    arrivals: &mut Arrivals,
) -> Tally {
    let mut tally = Tally::default();
    for query in queries.iter() {
        tally.received += 1;
        let length = query.octets.len();
        if query.truncated || length > DATAGRAM_OCTETS_MAX || !rule.takes(query.octets) {
            tally.ignored += 1;
            continue;
        }
        if let Some(at_ns) = query.received_realtime_ns {
            arrivals.note(at_ns);
        }
        if answers.is_full() {
            tally.flush(answers, socket);
        }
        answers.push(Some(query.from), query.local, |buffer| {
            let answer = &mut buffer[..length];
            answer.copy_from_slice(query.octets);
            rule.answer(answer);
            length
        });
    }
    tally.flush(answers, socket);
    tally
}

impl Tally {
    fn flush(&mut self, answers: &mut SendBatch, socket: &UdpSocket) {
        let flushed = answers.flush(socket);
        self.answered += flushed.sent as u64;
        self.not_sent += flushed.failed as u64;
    }
}
