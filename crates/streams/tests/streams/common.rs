//! A server whose owner reacts as a test wants, and a client that waits for its answers.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Section, Writer, rtype};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use streams::{
    Answer, Handle, Limits, ListenSocket, Listener, Protocol, Query, Roots, ServerTls, Streams, Upstream,
};

/// Nothing here takes so long but what never comes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The threads of a server that serve its clients.
pub const CLIENT_THREADS: usize = 2;

/// The path of the HTTPS resource.
pub const PATH: &str = "/dns-query";

/// The name in the certificates.
pub const NAME: &str = "dns.test";

/// What the owner does with a query.
pub enum Reaction {
    Answer(Vec<u8>),
    Forget,
    /// Nothing, ever.
    Keep,
}

/// A server and what came to it.
pub struct Server {
    pub streams: Streams,
    pub addresses: Vec<SocketAddr>,
    pub certificate: Certificate,
    pub queries: Arc<Mutex<Vec<Query>>>,
}

impl Server {
    /// Serves these protocols, numbered from 0, on loopback.
    pub fn start(
        protocols: &[Protocol],
        limits: Limits,
        react: impl Fn(&Query) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Certificate::new(), protocols, limits, react)
    }

    /// The same with this certificate.
    pub fn start_with(
        certificate: Certificate,
        protocols: &[Protocol],
        limits: Limits,
        react: impl Fn(&Query) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let queries = Arc::new(Mutex::new(Vec::new()));
        let (seen, own) = (queries.clone(), Arc::new(OnceLock::<Handle>::new()));
        let handle = own.clone();
        let on_query = move |query: Query| {
            let handle = handle.get().unwrap();
            match react(&query) {
                Reaction::Answer(octets) => handle.answer(query.token, &octets),
                Reaction::Forget => handle.forget(query.token),
                Reaction::Keep => {}
            }
            seen.lock().unwrap().push(query);
        };
        let streams = Streams::start("test", CLIENT_THREADS, on_query, |_| {}).unwrap();
        assert!(own.set(streams.handle()).is_ok());
        let (listeners, addresses) = protocols.iter().enumerate().map(|(n, &p)| listener(p, n)).unzip();
        streams.listen(listeners, Some(certificate.tls()), limits).unwrap();
        Self { streams, addresses, certificate, queries }
    }

    /// How a client reaches listener `number`.
    pub fn upstream(&self, protocol: Protocol, number: usize) -> Upstream {
        upstream(protocol, self.addresses[number], Some(self.certificate.roots()))
    }

    pub fn tcp(&self, number: usize) -> TcpStream {
        let stream = TcpStream::connect(self.addresses[number]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A TLS client with these protocols. Most clients of DNS over TLS name none.
    pub fn tls(&self, number: usize, alpn: &[&[u8]]) -> StreamOwned<ClientConnection, TcpStream> {
        let config = Arc::new(self.certificate.client(alpn));
        let name = ServerName::try_from(NAME).unwrap();
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), self.tcp(number))
    }
}

pub fn upstream(protocol: Protocol, address: SocketAddr, roots: Option<Roots>) -> Upstream {
    Upstream {
        address,
        protocol,
        tls_name: Some(NAME.to_owned()),
        path: PATH.to_owned(),
        source: None,
        roots,
        in_flight: streams::UPSTREAM_IN_FLIGHT_MAX,
    }
}

/// A socket on loopback, and where it is.
pub fn listener(protocol: Protocol, number: usize) -> (Listener, SocketAddr) {
    let (socket, address) = if protocol.is_over_udp() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (ListenSocket::Udp(socket), address)
    } else {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (ListenSocket::Tcp(socket), address)
    };
    (Listener { protocol, number, socket, path: PATH.to_owned() }, address)
}

/// A certificate that vouches for itself.
pub struct Certificate {
    pub certificate: String,
    pub key: String,
}

impl Certificate {
    pub fn new() -> Self {
        Self::with_more_names(0)
    }

    /// The same for so many other names, too, which make it long.
    pub fn with_more_names(count: usize) -> Self {
        let mut names = vec![NAME.to_owned(), "127.0.0.1".to_owned()];
        names.extend((0..count).map(|number| format!("{number}.{}.test", "x".repeat(60))));
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    /// The settings of a TLS client that trusts it and offers these protocols.
    pub fn client(&self, alpn: &[&[u8]]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }

    pub fn tls(&self) -> ServerTls {
        ServerTls::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }

    pub fn roots(&self) -> Roots {
        Roots::from_pem(self.certificate.as_bytes()).unwrap()
    }
}

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Runs to its end, with patience, what needs an event loop of its own.
pub fn blocking<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
}

/// A client.
pub struct Asker {
    pub streams: Streams,
    pub handle: Handle,
    answers: Receiver<Answer>,
}

impl Asker {
    pub fn new(upstreams: Vec<Upstream>) -> Self {
        let (sender, answers) = mpsc::channel();
        let streams = Streams::start("test", 0, |_| {}, move |answer| sender.send(answer).unwrap()).unwrap();
        streams.set_upstreams(1, upstreams).unwrap();
        Self { handle: streams.handle(), streams, answers }
    }

    /// Sends a query, whose answer [`Asker::next`] gives.
    pub fn send(&self, upstream: usize, token: u64, query: Vec<u8>) {
        self.handle.ask(1, upstream, token, query, PATIENCE);
    }

    pub fn next(&self) -> Answer {
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    pub fn ask(&self, upstream: usize, query: Vec<u8>) -> Option<Vec<u8>> {
        self.send(upstream, 9, query);
        self.next().octets.ok()
    }

    /// The same without much patience.
    pub fn ask_briefly(&self, upstream: usize, query: Vec<u8>) -> Option<Vec<u8>> {
        self.handle.ask(1, upstream, 9, query, Duration::from_millis(200));
        self.next().octets.ok()
    }
}

pub fn query(id: u16, name: &str) -> Vec<u8> {
    let mut octets = [0; 512];
    let question = Question { name: Name::from_text(name).unwrap(), qtype: rtype::AAAA, qclass: CLASS_IN };
    let length = Writer::new(&mut octets, id, Header::RD, &question).unwrap().finish();
    octets[..length].to_vec()
}

/// An answer to `query` with one AAAA record, TTL 77, and the ID of the query.
pub fn answer(query: &[u8]) -> Vec<u8> {
    let mut octets = [0; 512];
    let asked = Message::parse(query).unwrap();
    let mut writer =
        Writer::new(&mut octets, asked.header.id, Header::QR | Header::RA, &asked.question()).unwrap();
    writer.record(Section::Answer, &asked.question().name, rtype::AAAA, CLASS_IN, 77, &[9; 16]).unwrap();
    let length = writer.finish();
    octets[..length].to_vec()
}

/// An answer as long as a message can be: TXT records about nothing.
pub fn longest_answer(query: &[u8]) -> Vec<u8> {
    let mut octets = answer(query);
    let record = |rdata_octets: usize| {
        let length = u16::try_from(rdata_octets).unwrap().to_be_bytes();
        [&[0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 5], &length[..], &vec![0; rdata_octets]].concat()
    };
    octets[7] = 3;
    octets.extend(record(32_000));
    let left = 65_535 - octets.len() - 12;
    octets.extend(record(left));
    assert_eq!(octets.len(), 65_535);
    octets
}

/// The owner that answers everything.
pub fn answers(query: &Query) -> Reaction {
    Reaction::Answer(answer(&query.octets))
}

pub fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// Waits until something has happened, or panics.
pub fn until(what: &str, happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
