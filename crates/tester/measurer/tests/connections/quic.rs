//! A server of DNS over QUIC, or over HTTP/3, that behaves as a test wants: the library without I/O, driven
//! by one thread.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use engine::workload::Workload;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamEvent, StreamId, TransportConfig, VarInt,
};

use super::doh3::Http3;
use super::server::answer;

/// What the server does with queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers every query.
    Answer,
    /// The same, the answer in two packets.
    InPieces,
    /// It closes the connection with this code instead of the answer to the n-th query of each connection.
    CloseAt(u64, u32),
    /// It resets the stream of every n-th query with this code.
    ResetEach(u64, u32),
    /// It reads and never answers.
    Silent,
    /// It answers every n-th query with octets of its own, and ends the stream.
    Wrong(u64, &'static [u8]),
    /// It refuses connections.
    Refuse,
    /// It opens a stream of this direction.
    Open(Dir),
    /// It speaks HTTP/3.
    Http3(Http3),
}

/// What came to the server.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicU64,
    pub queries: AtomicU64,
    /// Queries that do not end with their stream, or whose ID is not 0; streams that the server might open.
    pub wrong: AtomicU64,
    /// Streams that the client stopped.
    pub stopped: AtomicU64,
    /// The codes that clients closed connections with.
    pub closes: Mutex<Vec<u64>>,
}

/// A server at work; it ends when it is dropped.
pub struct QuicServer {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl QuicServer {
    /// Starts one on loopback, whose clients may have so many streams at a time.
    pub fn start(
        behaviour: Behaviour,
        workload: Workload,
        (tls, streams): (rustls::ServerConfig, u32),
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let address = socket.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let mut config = quinn_proto::ServerConfig::with_crypto(crypto);
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(streams.into());
        config.transport_config(Arc::new(transport));
        let endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), false, None);
        let mut server = Serving {
            socket,
            endpoint,
            connections: HashMap::new(),
            how: (behaviour, workload),
            seen: seen.clone(),
            buffer: Vec::new(),
        };
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                server.turn();
            }
        });
        Self { address, seen, stop, thread: Some(thread) }
    }

    pub fn queries(&self) -> u64 {
        self.seen.queries.load(Ordering::Relaxed)
    }

    /// The code that all connections were closed with, once all are closed.
    pub fn close_code(&self) -> u64 {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let codes = self.seen.closes.lock().unwrap().clone();
            if codes.len() as u64 >= self.seen.connections.load(Ordering::Relaxed) {
                assert!(codes.iter().all(|code| *code == codes[0]), "{codes:?}");
                return codes[0];
            }
            assert!(Instant::now() < until, "not all connections were closed: {codes:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for QuicServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Serving {
    socket: UdpSocket,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Peer>,
    how: (Behaviour, Workload),
    seen: Arc<Seen>,
    buffer: Vec<u8>,
}

struct Peer {
    connection: Connection,
    queries: u64,
    /// The second pieces of answers.
    later: Vec<(StreamId, Vec<u8>)>,
}

impl Serving {
    /// Takes what has arrived, and drives all connections.
    fn turn(&mut self) {
        let mut datagram = [0; 2048];
        loop {
            match self.socket.recv_from(&mut datagram) {
                Ok((octets, from)) => self.take(BytesMut::from(&datagram[..octets]), from),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                // A client has gone.
                Err(_) => {}
            }
            self.drive();
        }
        self.drive();
    }

    fn take(&mut self, octets: BytesMut, from: SocketAddr) {
        self.buffer.clear();
        let now = Instant::now();
        match self.endpoint.handle(now, from, None, None, octets, &mut self.buffer) {
            Some(DatagramEvent::NewConnection(incoming)) if self.how.0 == Behaviour::Refuse => {
                let made = self.endpoint.refuse(incoming, &mut self.buffer);
                let _ = self.socket.send_to(&self.buffer[..made.size], made.destination);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut self.buffer, None) {
                    Ok((handle, connection)) => {
                        let peer = Peer { connection, queries: 0, later: Vec::new() };
                        self.connections.insert(handle, peer);
                    }
                    Err(refused) => {
                        let made = refused.response.unwrap();
                        let _ = self.socket.send_to(&self.buffer[..made.size], made.destination);
                    }
                }
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(peer) = self.connections.get_mut(&handle) {
                    peer.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(made)) => {
                let _ = self.socket.send_to(&self.buffer[..made.size], made.destination);
            }
            None => {}
        }
    }

    fn drive(&mut self) {
        let now = Instant::now();
        for (handle, peer) in &mut self.connections {
            for (id, rest) in peer.later.drain(..) {
                peer.connection.send_stream(id).write(&rest).unwrap();
                peer.connection.send_stream(id).finish().unwrap();
            }
            let connection = &mut peer.connection;
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = peer.connection.poll() {
                attend(peer, event, (&self.how, &self.seen));
            }
            loop {
                self.buffer.clear();
                let made = peer.connection.poll_transmit(now, 1, &mut self.buffer);
                let Some(made) = made else { break };
                let _ = self.socket.send_to(&self.buffer[..made.size], made.destination);
            }
        }
        self.connections.retain(|_, peer| !peer.connection.is_drained());
    }
}

fn attend(peer: &mut Peer, event: Event, ((behaviour, workload), seen): (&(Behaviour, Workload), &Seen)) {
    let connection = &mut peer.connection;
    match event {
        Event::Connected => {
            seen.connections.fetch_add(1, Ordering::Relaxed);
            if let Behaviour::Http3(http3) = behaviour {
                http3.begin(connection);
            }
            if let Behaviour::Open(dir) = behaviour {
                let allowed = connection.streams().open(*dir).is_some();
                seen.wrong.fetch_add(allowed.into(), Ordering::Relaxed);
            }
        }
        Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(close) } => {
            seen.closes.lock().unwrap().push(close.error_code.into_inner());
        }
        Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
            while let Some(id) = peer.connection.streams().accept(Dir::Bi) {
                serve(peer, id, (*behaviour, workload), seen);
            }
        }
        // What the client says of its control is not read.
        Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
            serve(peer, id, (*behaviour, workload), seen);
        }
        Event::Stream(StreamEvent::Stopped { id, error_code }) => {
            seen.stopped.fetch_add(1, Ordering::Relaxed);
            let expected = if let Behaviour::Http3(http3) = behaviour { http3.stop_code(id) } else { 3 };
            assert_eq!(error_code.into_inner(), expected, "DOQ_REQUEST_CANCELLED");
            connection.send_stream(id).reset(error_code).unwrap();
        }
        _ => {}
    }
}

/// Takes a query whose stream has ended, as short ones do with their only packet.
fn serve(
    Peer { connection, queries, later }: &mut Peer,
    id: StreamId,
    (behaviour, workload): (Behaviour, &Workload),
    seen: &Seen,
) {
    let mut octets = Vec::new();
    {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
                Ok(None) => break,
                Err(_) => {
                    seen.wrong.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        let _ = chunks.finalize();
    }
    let number = *queries;
    *queries += 1;
    seen.queries.fetch_add(1, Ordering::Relaxed);
    if let Behaviour::Http3(http3) = behaviour {
        let query = super::doh3::query(&octets);
        return http3.respond(connection, (id, number), &answer(workload, query));
    }
    let query = &octets[2..];
    let whole = usize::from(u16::from_be_bytes([octets[0], octets[1]])) == query.len();
    seen.wrong.fetch_add(u64::from(!whole || query[..2] != [0, 0]), Ordering::Relaxed);
    let answer = answer(workload, query);
    let frame = [&u16::try_from(answer.len()).unwrap().to_be_bytes()[..], &answer].concat();
    match behaviour {
        Behaviour::Silent => {}
        Behaviour::CloseAt(last, code) if number == last => {
            connection.close(Instant::now(), VarInt::from_u32(code), Bytes::new());
        }
        Behaviour::ResetEach(each, code) if number % each == 0 => {
            connection.send_stream(id).reset(VarInt::from_u32(code)).unwrap();
        }
        Behaviour::Wrong(each, octets) if number % each == 0 => {
            connection.send_stream(id).write(octets).unwrap();
            connection.send_stream(id).finish().unwrap();
        }
        Behaviour::InPieces => {
            connection.send_stream(id).write(&frame[..1]).unwrap();
            later.push((id, frame[1..].to_vec()));
        }
        _ => {
            connection.send_stream(id).write(&frame).unwrap();
            connection.send_stream(id).finish().unwrap();
        }
    }
}
