//! The AuthDNS on AF_XDP: threads that answer at the rings of the devices' queues.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::xdp_service::{self, Served, ServiceRing, XdpService as DeviceService};
use sys::clock;
use sys::frame::QueryFrame;
use sys::poll::Waker;
use sys::xdp::XdpError;

use super::AuthorityConfig;
use super::backend::IoRefusal;
use super::kernel::{advise, sites};
use crate::counters::{SharedTraffic, Traffic};
use crate::delayed::Delayed;
use crate::faults::Reply;
use crate::query::Query;
use crate::responder::Responder;
use crate::zone::{ANSWER_OCTETS_MAX, Transport};

/// Looks at empty rings before the thread sleeps: some microseconds, for a sleep and its end cost as much.
const LOOKS_BEFORE_SLEEP: u32 = 200;
/// The pause after a device reported an error, so that a broken one does not keep a processor busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// How long to wait for a device that took no answers, in ns: no event tells when it can.
const UNSENT_PAUSE_NS: u64 = 1_000_000;
/// Answers that faults may keep waiting in one thread, as at a socket.
const DELAYED_MAX: usize = 1 << 17;

/// The threads and the programs that feed them. Dropping it ends them.
pub(super) struct XdpService {
    // In this order: the threads end before the devices are free again.
    threads: Vec<Thread>,
    devices: Vec<DeviceService>,
}

impl XdpService {
    /// Starts the threads for all receive queues of the devices that have the addresses, or of the one named.
    ///
    /// # Errors
    /// Why not, in one line. Nothing is left on any device then.
    pub fn start(
        responder: &Responder,
        listen: &[SocketAddr],
        config: &AuthorityConfig,
        failures: &Arc<AtomicU64>,
    ) -> Result<Self, IoRefusal> {
        let mut devices = Vec::new();
        for site in sites(listen, config.device.as_deref())? {
            devices.push(
                DeviceService::open(site.device, &site.addresses, None).map_err(|error| refusal(&error))?,
            );
        }
        let queues: usize = devices.iter().map(DeviceService::queues).sum();
        if config.threads > queues {
            return Err(too_few(&devices, queues, config.threads));
        }
        let mut rings: Vec<Vec<ServiceRing>> = Vec::new();
        rings.resize_with(config.threads.max(1), Vec::new);
        let mut next = (0..rings.len()).cycle();
        for device in &mut devices {
            for (queue, thread) in (0..device.queues() as u32).zip(&mut next) {
                rings[thread].push(device.ring(queue).map_err(|error| refusal(&error))?);
            }
        }
        let mut threads = Vec::new();
        for (index, rings) in rings.into_iter().enumerate() {
            let cpu = config.cpus.get(index % config.cpus.len().max(1)).copied();
            let thread = Thread::start(index, cpu, rings, responder.clone(), failures.clone());
            let cannot = |error| IoRefusal::Environment(format!("cannot start its threads: {error}"));
            threads.push(thread.map_err(cannot)?);
        }
        Ok(Self { threads, devices })
    }

    /// Ends the threads; what they have counted stays.
    pub fn stop(&mut self) {
        self.threads.iter_mut().for_each(Thread::stop);
    }

    /// The devices and how the programs run there.
    pub fn places(&self) -> String {
        let place = |device: &DeviceService| {
            let (name, queues) = (&device.device.name, device.queues());
            let s = if queues == 1 { "" } else { "s" };
            format!("{} XDP on {name}, {queues} queue{s}", device.mode())
        };
        self.devices.iter().map(place).collect::<Vec<_>>().join(", ")
    }

    /// What the threads have answered. What was left to the sockets is counted there.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for thread in &self.threads {
            sum += thread.shared.traffic.read();
        }
        sum
    }

    /// Queries dropped because a ring was full.
    pub fn drops(&self) -> u64 {
        self.threads.iter().map(|thread| thread.shared.drops.load(Ordering::Relaxed)).sum()
    }
}

/// Each thread needs a queue, or it would idle.
fn too_few(devices: &[DeviceService], queues: usize, threads: usize) -> IoRefusal {
    let names: Vec<&str> = devices.iter().map(|device| device.device.name.as_str()).collect();
    let names = names.join(", ");
    IoRefusal::Usage(format!(
        "{threads} threads need a receive queue each, and {names} has {queues}: use fewer threads, or make more queues \
         ('ethtool -L DEVICE')"
    ))
}

fn refusal(error: &XdpError) -> IoRefusal {
    match error {
        XdpError::Program(error) => advise(error),
        _ => IoRefusal::Environment(error.to_string()),
    }
}

/// What a thread and its handle share.
#[derive(Default)]
struct Shared {
    traffic: SharedTraffic,
    drops: AtomicU64,
    stop: AtomicBool,
}

/// The handle of a thread; dropping it ends the thread.
struct Thread {
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(
        index: usize,
        cpu: Option<usize>,
        rings: Vec<ServiceRing>,
        responder: Responder,
        failures: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let (shared, waker) = (Arc::<Shared>::default(), Arc::new(Waker::new()?));
        let server = Server {
            rings,
            responder,
            delayed: Delayed::new(DELAYED_MAX),
            shared: shared.clone(),
            waker: waker.clone(),
            failures,
        };
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("auth-xdp-{index}")).spawn(move || {
            let begun = cpu.map_or(Ok(()), sys::cpu::pin);
            let failed = begun.is_err();
            // The starter waits for this, so it is there.
            let _ = ready.send(begun);
            if !failed {
                server.run();
            }
        })?;
        let handle = Self { shared, waker, thread: Some(thread) };
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at its start")))?;
        Ok(handle)
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Server {
    rings: Vec<ServiceRing>,
    responder: Responder,
    /// Frames for the ring of this number.
    delayed: Delayed<(usize, Box<[u8]>)>,
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    failures: Arc<AtomicU64>,
}

impl Server {
    fn run(mut self) {
        let mut looks = 0;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let served = match self.serve() {
                Ok(0) if looks >= LOOKS_BEFORE_SLEEP => self.sleep().map(|()| 1),
                served => served,
            };
            match served {
                Ok(0) => {
                    looks += 1;
                    std::hint::spin_loop();
                }
                Ok(_) => looks = 0,
                Err(_) => {
                    self.note_failure();
                    std::thread::sleep(FAILURE_PAUSE);
                }
            }
        }
        self.note_drops();
        let undelivered = self.delayed.len() as u64;
        self.shared.traffic.add(Traffic { undelivered, ..Traffic::default() });
    }

    /// Answers what is there, at all rings; returns how many queries that were.
    fn serve(&mut self) -> io::Result<usize> {
        let (mut taken, mut result) = (0, Ok(()));
        for index in 0..self.rings.len() {
            let mut traffic = Traffic::default();
            match self.serve_ring(index, &mut traffic) {
                Ok(served) => taken += served,
                // A device that is down must not keep those of others waiting.
                Err(error) => result = Err(error),
            }
            if traffic != Traffic::default() {
                self.shared.traffic.add(traffic);
            }
        }
        if self.delayed.next_due_ns().is_some() {
            result = result.and(self.send_due());
        }
        match result {
            Err(_) if taken > 0 => self.note_failure(),
            result => result?,
        }
        Ok(taken)
    }

    fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn serve_ring(&mut self, index: usize, traffic: &mut Traffic) -> io::Result<usize> {
        let Self { rings, responder, delayed, .. } = self;
        // Read after the first datagram is seen, and once for all of them.
        let (needs_time, mut now_ns) = (responder.needs_time(), 0);
        let mut again = Vec::new();
        let served = rings[index].serve(|asked, out| {
            if needs_time && now_ns == 0 {
                now_ns = clock::monotonic_ns();
            }
            let reply = respond(responder, asked, now_ns, out);
            traffic.count(&reply);
            let length = match reply.answer.octets {
                0 => return 0,
                octets => asked.complete(out, octets),
            };
            if reply.is_prompt() {
                return length;
            }
            for _ in 0..reply.copies {
                let frame = (index, Box::from(&out[..length]));
                if reply.delay_ns == 0 {
                    again.push(frame.1);
                } else if delayed.push(now_ns.saturating_add(reply.delay_ns), frame).is_err() {
                    traffic.undelivered += 1;
                }
            }
            0
        })?;
        add(traffic, served);
        if !again.is_empty() {
            send(&mut rings[index], traffic, again.into_iter())?;
        }
        Ok(served.taken)
    }

    /// Sends the delayed answers that are due.
    fn send_due(&mut self) -> io::Result<()> {
        let (now_ns, mut traffic) = (clock::monotonic_ns(), Traffic::default());
        let mut result = Ok(());
        while let Some((ring, frame)) = self.delayed.pop_due(now_ns) {
            result = result.and(send(&mut self.rings[ring], &mut traffic, std::iter::once(frame)));
        }
        self.shared.traffic.add(traffic);
        result
    }

    /// Waits until there is something to do.
    fn sleep(&mut self) -> io::Result<()> {
        self.note_drops();
        let due = self.delayed.next_due_ns().map(|due_ns| due_ns.saturating_sub(clock::monotonic_ns()));
        let unsent = self.rings.iter().any(ServiceRing::has_pending).then_some(UNSENT_PAUSE_NS);
        let timeout_ns = due.into_iter().chain(unsent).min();
        xdp_service::wait(&self.rings, &*self.waker, timeout_ns)
    }

    fn note_drops(&self) {
        let drops = self.rings.iter().map(ServiceRing::drops).sum();
        self.shared.drops.store(drops, Ordering::Relaxed);
    }
}

/// Writes the answer's message into its place.
fn respond(responder: &mut Responder, asked: &QueryFrame<'_>, arrived_ns: u64, out: &mut [u8]) -> Reply {
    let payload_at = asked.payload_offset();
    let place = &mut out[payload_at..payload_at + ANSWER_OCTETS_MAX];
    let (octets, from) = (asked.datagram.payload, asked.datagram.source);
    responder.respond(Query { octets, from, transport: Transport::Udp, arrived_ns }, place)
}

fn send(
    ring: &mut ServiceRing,
    traffic: &mut Traffic,
    frames: impl Iterator<Item = Box<[u8]>>,
) -> io::Result<()> {
    for frame in frames {
        match ring.send(&frame) {
            true => traffic.answers += 1,
            false => traffic.send_failures += 1,
        }
    }
    let served = ring.flush()?;
    add(traffic, served);
    Ok(())
}

/// Counts answers that left; what a device refuses shows later than that it was in line.
fn add(traffic: &mut Traffic, served: Served) {
    traffic.answers += served.answered as u64;
    traffic.answers -= (served.refused as u64).min(traffic.answers);
    traffic.send_failures += served.refused as u64;
}
