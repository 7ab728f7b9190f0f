//! A server of DNS over TCP, TLS and HTTPS that behaves as a test wants, a thread for each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dns64::wire::{CLASS_IN, Header, Message, Section, Writer, rtype};
use engine::workload::Workload;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;

use super::https::{self, Http};

/// What the server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers every query.
    Answer,
    /// It closes the connection instead of the answer to the n-th query, from 0.
    CloseAt(u64),
    /// It resets the connection there.
    ResetAt(u64),
    /// It reads and never answers.
    Silent,
    /// It sends what is no message of DNS, and then the answer.
    Garbage,
    /// It never reads.
    Deaf,
    /// It speaks HTTP/2.
    Http(Http),
}

/// What came to the server.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicU64,
    pub answers: AtomicU64,
    /// The most queries of one connection.
    pub most: AtomicU64,
    /// Streams that the client cancelled.
    pub cancelled: AtomicU64,
}

/// A server at work; it ends when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How long a read waits, so that an end of the test is seen.
const LOOK: Duration = Duration::from_millis(20);

impl Server {
    /// Starts one on loopback; with TLS if there is a configuration.
    pub fn start(behaviour: Behaviour, workload: Workload, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        if behaviour == Behaviour::Deaf {
            // Connections inherit it. A buffer that grows by itself may take all queries of a test.
            SockRef::from(&listener).set_recv_buffer_size(16 << 10).unwrap();
        }
        listener.set_nonblocking(true).unwrap();
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                while !stopped.load(Ordering::Relaxed) {
                    let Ok((stream, _)) = listener.accept() else {
                        std::thread::sleep(Duration::from_micros(200));
                        continue;
                    };
                    let (seen, stop, tls) = (&*shared, &*stopped, tls.clone());
                    let workload = &workload;
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move || serve(stream, tls, (behaviour, workload), (seen, stop)));
                }
            });
        });
        Self { address, seen, stop, thread: Some(thread) }
    }

    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::Relaxed)
    }

    pub fn answers(&self) -> u64 {
        self.seen.answers.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    how: (Behaviour, &Workload),
    shared: (&Seen, &AtomicBool),
) {
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LOOK)).unwrap();
    let socket = stream.try_clone().unwrap();
    match tls {
        None => converse(stream, &socket, how, shared),
        Some(config) => {
            let tls = ServerConnection::new(config).unwrap();
            converse(StreamOwned::new(tls, stream), &socket, how, shared);
        }
    }
}

/// Reads exactly so much; `None` when the client, or the test, has ended.
pub fn read(stream: &mut impl Read, buffer: &mut [u8], stop: &AtomicBool) -> Option<()> {
    let mut at = 0;
    while at < buffer.len() {
        match stream.read(&mut buffer[at..]) {
            Ok(0) => return None,
            Ok(octets) => at += octets,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
    Some(())
}

fn converse(
    mut stream: impl Read + Write,
    socket: &TcpStream,
    (behaviour, workload): (Behaviour, &Workload),
    (seen, stop): (&Seen, &AtomicBool),
) {
    if behaviour == Behaviour::Deaf {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        return;
    }
    if let Behaviour::Http(behaviour) = behaviour {
        https::converse(&mut stream, (behaviour, workload), (seen, stop));
        return;
    }
    for number in 0.. {
        let (mut length, mut query) = ([0; 2], [0; 512]);
        if read(&mut stream, &mut length, stop).is_none() {
            return;
        }
        let query = &mut query[..usize::from(u16::from_be_bytes(length))];
        if read(&mut stream, query, stop).is_none() {
            return;
        }
        seen.most.fetch_max(number + 1, Ordering::Relaxed);
        match behaviour {
            Behaviour::CloseAt(last) if number == last => return,
            Behaviour::ResetAt(last) if number == last => {
                SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
            Behaviour::Silent => continue,
            Behaviour::Garbage => stream.write_all(&[0, 3, 1, 2, 3]).unwrap(),
            _ => {}
        }
        let answer = answer(workload, query);
        let mut frame = u16::try_from(answer.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(answer);
        if stream.write_all(&frame).and_then(|()| stream.flush()).is_err() {
            return;
        }
        seen.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// The right answer.
pub fn answer(workload: &Workload, query: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 512];
    let query = Message::parse(query).unwrap();
    let number = workload.number_of(query.octets()).unwrap();
    let mut writer = Writer::new(&mut buffer, query.header.id, Header::QR, &query.question()).unwrap();
    let address = workload.expected(number).octets();
    writer.record(Section::Answer, &query.question().name, rtype::AAAA, CLASS_IN, 1, &address).unwrap();
    let length = writer.finish();
    buffer[..length].to_vec()
}

/// A server that has no certificate to show.
#[derive(Debug)]
pub struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
