//! A thread that serves UDP sockets, and lends them to another thread on request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use sys::clock;
use sys::poll::{Events, Interest, Poller, Waker};

use super::udp::UdpService;

/// Batches answered at one socket before the next has its turn.
const BATCHES_AT_ONCE: usize = 16;
/// The pause after a socket reported an error, so that a broken one does not keep a processor busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// The token of the waker; sockets have their index.
const WAKER: u64 = u64::MAX;

enum Command {
    Lend(Sender<Vec<UdpService>>),
    Back(Vec<UdpService>),
    Stop,
}

/// The handle of a serving thread; dropping it ends the thread.
pub(super) struct Worker {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread, on processor `cpu` if one is given, and waits until it serves.
    ///
    /// # Errors
    /// The processor may not be used, or a thread or descriptor cannot be had.
    pub fn start(
        index: usize,
        cpu: Option<usize>,
        services: Vec<UdpService>,
        receive_failures: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let poller = Poller::new()?;
        poller.add(&*waker, WAKER, Interest::Read)?;
        let (commands, receiver) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let mut server = Server {
            poller,
            services: Vec::new(),
            waker: waker.clone(),
            commands: receiver,
            receive_failures,
        };
        let thread = std::thread::Builder::new().name(format!("auth-udp-{index}")).spawn(move || {
            let begun = cpu.map_or(Ok(()), sys::cpu::pin).and_then(|()| server.take(services));
            let failed = begun.is_err();
            // The starter waits for this, so it is there.
            let _ = ready.send(begun);
            if !failed {
                server.run();
            }
        })?;
        let worker = Self { commands, waker, thread: Some(thread) };
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at its start")))?;
        Ok(worker)
    }

    /// Takes the sockets out of the thread, which sleeps until they are back; nothing when they are lent
    /// already.
    pub(crate) fn lend(&self) -> Vec<UdpService> {
        let (reply, services) = mpsc::channel();
        self.send(Command::Lend(reply));
        services.recv().unwrap_or_default()
    }

    pub fn give_back(&self, services: Vec<UdpService>) {
        self.send(Command::Back(services));
    }

    fn send(&self, command: Command) {
        // A thread that has ended needs no commands.
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Server {
    poller: Poller,
    services: Vec<UdpService>,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    receive_failures: Arc<AtomicU64>,
}

impl Server {
    fn run(mut self) {
        let mut events = Events::with_capacity(self.services.len() + 1);
        loop {
            // Only a broken descriptor makes this fail; the pause below keeps even that from spinning.
            let waited = self.poller.wait(&mut events, self.until_due());
            let mut failures = u64::from(waited.is_err());
            for event in events.iter() {
                match self.services.get_mut(event.token as usize) {
                    Some(service) => failures += u64::from(service.poll(BATCHES_AT_ONCE).is_err()),
                    None => self.waker.drain(),
                }
            }
            failures += self.send_due();
            if failures > 0 {
                self.receive_failures.fetch_add(failures, Ordering::Relaxed);
                std::thread::sleep(FAILURE_PAUSE);
            }
            if self.obey().is_err() {
                return;
            }
        }
    }

    /// How long until a delayed answer is due; `None` when none waits.
    fn until_due(&self) -> Option<Duration> {
        let due_ns = self.services.iter().filter_map(UdpService::next_due_ns).min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns())))
    }

    /// Polls the sockets at which delayed answers wait; returns how many failed.
    fn send_due(&mut self) -> u64 {
        let waiting = self.services.iter_mut().filter(|service| service.next_due_ns().is_some());
        waiting.map(|service| u64::from(service.poll(0).is_err())).sum()
    }

    /// Obeys all commands that wait.
    ///
    /// # Errors
    /// The thread shall end.
    fn obey(&mut self) -> Result<(), TryRecvError> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Lend(reply)) => self.hand_out(&reply),
                Ok(Command::Back(services)) => {
                    if self.take(services).is_err() {
                        self.receive_failures.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(Command::Stop) => return Err(TryRecvError::Disconnected),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(gone) => return Err(gone),
            }
        }
    }

    fn take(&mut self, services: Vec<UdpService>) -> io::Result<()> {
        for service in services {
            self.poller.add(&service, self.services.len() as u64, Interest::Read)?;
            self.services.push(service);
        }
        Ok(())
    }

    fn hand_out(&mut self, reply: &Sender<Vec<UdpService>>) {
        for service in &self.services {
            // It was added by `take`; at worst the thread wakes for a socket it does not have.
            let _ = self.poller.remove(service);
        }
        let services = std::mem::take(&mut self.services);
        if let Err(unwanted) = reply.send(services) {
            let _ = self.take(unwanted.0);
        }
    }
}
