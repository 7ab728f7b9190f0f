//! A DNS server that does what the test says: each query is handed to a script.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A query as it came.
pub struct Query {
    /// The index of its name: with `--first-name 0` the number of the query in the trial. Sextant first asks
    /// for the name before that, the last one of the range.
    pub number: u32,
    pub octets: Vec<u8>,
    pub from: SocketAddr,
}

/// What a script acts with.
pub struct Stage {
    pub socket: UdpSocket,
    later: Vec<(Instant, SocketAddr, Vec<u8>)>,
}

/// Ends with the test.
pub struct Responder {
    pub address: SocketAddr,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const HEADER: usize = 12;
/// Names are asked from 10.0.0.0/8.
const NETWORK: u32 = 10 << 24;
/// The last name of the range.
const BEFORE_THE_FIRST: u32 = (1 << 24) - 1;

impl Query {
    fn read(octets: &[u8], from: SocketAddr) -> Option<Self> {
        // The first label is the address: 010-000-000-007.
        let label = octets.get(HEADER + 1..HEADER + 16)?;
        let text = std::str::from_utf8(label).ok()?;
        let address =
            text.split('-').try_fold(0u32, |sum, part| Some(sum << 8 | part.parse::<u32>().ok()?))?;
        Some(Self { number: address - NETWORK, octets: octets.to_vec(), from })
    }

    /// The header with these flags and number of answers, and the question.
    fn head(&self, flags: u16, answers: u16) -> Vec<u8> {
        let name = self.octets[HEADER..].iter().position(|&octet| octet == 0).unwrap();
        let mut reply = self.octets[..HEADER + name + 5].to_vec();
        reply[2..4].copy_from_slice(&flags.to_be_bytes());
        reply[6..8].copy_from_slice(&answers.to_be_bytes());
        reply[8..12].fill(0);
        reply
    }

    /// A reply without records.
    pub fn empty(&self, rcode: u16) -> Vec<u8> {
        self.head(0x8180 | rcode, 0)
    }

    /// The right answer, below the Measurer's default prefix.
    pub fn answer(&self) -> Vec<u8> {
        let mut reply = self.head(0x8180, 1);
        // Owner by pointer, AAAA, IN, TTL 60, 16 octets.
        reply.extend([0xc0, 0x0c, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
        reply.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0x64, 0, 0, 0, 0, 0, 0]);
        reply.extend((NETWORK + self.number).to_be_bytes());
        reply
    }
}

impl Stage {
    pub fn send(&self, octets: &[u8], to: SocketAddr) {
        // Whether it arrives is the test's question.
        let _ = self.socket.send_to(octets, to);
    }

    pub fn send_after(&mut self, delay: Duration, octets: Vec<u8>, to: SocketAddr) {
        self.later.push((Instant::now() + delay, to, octets));
    }

    fn send_due(&mut self) {
        let now = Instant::now();
        for (_, to, octets) in self.later.extract_if(.., |(due, ..)| *due <= now) {
            let _ = self.socket.send_to(&octets, to);
        }
    }
}

impl Responder {
    /// Listens at an address and runs the script for every query.
    pub fn start(
        listen: impl ToSocketAddrs,
        script: impl FnMut(&mut Stage, &Query) + Send + 'static,
    ) -> Self {
        Self::on(UdpSocket::bind(listen).unwrap(), script)
    }

    /// The same at a socket.
    pub fn on(socket: UdpSocket, mut script: impl FnMut(&mut Stage, &Query) + Send + 'static) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let address = socket.local_addr().unwrap();
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&received), Arc::clone(&stop));
        let work = move || {
            let mut stage = Stage { socket, later: Vec::new() };
            let mut buffer = [0; 2048];
            while !end.load(Ordering::Relaxed) {
                let received = stage.socket.recv_from(&mut buffer).ok();
                let query = received.and_then(|(length, from)| Query::read(&buffer[..length], from));
                if let Some(query) = query {
                    count.fetch_add(u64::from(query.number != BEFORE_THE_FIRST), Ordering::Relaxed);
                    script(&mut stage, &query);
                }
                stage.send_due();
            }
        };
        Self { address, received, stop, thread: Some(std::thread::spawn(work)) }
    }

    /// Queries of the trial that came, without those by which Sextant found out whether there is a server.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
