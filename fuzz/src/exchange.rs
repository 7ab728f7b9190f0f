//! Any query and any reply between our client and our server, over TCP, TLS, HTTPS and QUIC: each arrives as
//! it was sent, and only a reply to the question is an answer.
//!
//! An input is an octet that chooses the protocol, the query behind the number of its octets in two, and the
//! reply.

use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use streams::message::{QUERY_OCTETS_MAX, is_reply};
use streams::{
    Answer, Handle, Limits, ListenSocket, Listener, Protocol, Query, Roots, ServerTls, Streams, Upstream,
};

use super::input::Input;

const HEADER_OCTETS: usize = 12;
const PATH: &str = "/dns-query";
const NAME: &str = "dns.test";
const TOKEN: u64 = 9;
/// Where an answer must come, and where none may.
const PATIENCE: Duration = Duration::from_secs(5);
const NO_PATIENCE: Duration = Duration::from_millis(5);

struct Both {
    streams: Streams,
    /// What the server's owner answers.
    reply: Arc<Mutex<Vec<u8>>>,
    /// What it was asked.
    queries: Arc<Mutex<Vec<Vec<u8>>>>,
    answers: Mutex<Receiver<Answer>>,
}

static BOTH: LazyLock<Both> = LazyLock::new(|| {
    let (reply, queries) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
    let own = Arc::new(OnceLock::<Handle>::new());
    let (handle, said, asked) = (Arc::clone(&own), Arc::clone(&reply), Arc::clone(&queries));
    let on_query = move |query: Query| {
        asked.lock().expect("a lock").push(query.octets.clone());
        let mut reply = said.lock().expect("a lock").clone();
        let handle = handle.get().expect("queries come after the listener");
        if reply.len() < HEADER_OCTETS {
            return handle.forget(query.token);
        }
        reply[..2].copy_from_slice(&query.octets[..2]);
        handle.answer(query.token, &reply);
    };
    let (sender, answers) = mpsc::channel();
    let streams = Streams::start("fuzz", 1, on_query, move |answer| {
        let _ = sender.send(answer);
    });
    let streams = streams.expect("a thread");
    assert!(own.set(streams.handle()).is_ok());
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let roots = Roots::from_pem(certificate.as_bytes()).expect("a certificate");
    let (listeners, upstreams) =
        Protocol::UPSTREAM.into_iter().map(|protocol| pair(protocol, &roots)).unzip();
    let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).expect("a certificate");
    streams.listen(listeners, Some(tls), Limits::default()).expect("listeners");
    streams.set_upstreams(1, upstreams).expect("upstream servers");
    Both { streams, reply, queries, answers: Mutex::new(answers) }
});

/// A listener, and the upstream server that it is.
fn pair(protocol: Protocol, roots: &Roots) -> (Listener, Upstream) {
    let (socket, address) = if protocol == Protocol::Quic {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        (ListenSocket::Udp(socket), address)
    } else {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        (ListenSocket::Tcp(socket), address)
    };
    let roots = Some(roots.clone());
    let (path, tls_name) = (PATH.to_owned(), Some(NAME.to_owned()));
    let upstream =
        Upstream { address, protocol, tls_name, path: path.clone(), source: None, roots, in_flight: 8 };
    (Listener { protocol, number: protocol.index(), socket, path }, upstream)
}

/// Asks the query.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let protocol = Protocol::UPSTREAM[usize::from(input.octet() % 4)];
    let query = input.counted();
    let mut reply = input.0.to_vec();
    let both = &*BOTH;
    *both.reply.lock().expect("a lock") = reply.clone();
    both.queries.lock().expect("a lock").clear();
    let is_query = (HEADER_OCTETS..=QUERY_OCTETS_MAX).contains(&query.len());
    let is_answer = is_query && reply.len() >= HEADER_OCTETS && is_reply(query, &reply);
    let is_carried = [query, &reply].into_iter().all(|message| carries(protocol, message));
    let patience = if is_answer && is_carried { PATIENCE } else { NO_PATIENCE };
    both.streams.handle().ask(1, protocol.index(), TOKEN, query.to_vec(), patience);
    let answer = both.answers.lock().expect("a lock").recv_timeout(2 * PATIENCE).expect("an end");
    assert_eq!(answer.token, TOKEN);
    if patience == NO_PATIENCE {
        assert!(answer.octets.is_err() || is_answer, "{protocol}: no reply to the question");
        return;
    }
    reply[..2].copy_from_slice(&query[..2]);
    assert_eq!(answer.octets.as_ref(), Ok(&reply), "{protocol}");
    let queries = both.queries.lock().expect("a lock");
    // A query of the input before may have come late.
    assert!(queries.iter().any(|asked| asked[2..] == query[2..]), "{protocol}: the query as it was sent");
}

/// Whether the protocol carries the message: QUIC refuses the idle time of RFC 7828 (RFC 9250 5.5.2).
fn carries(protocol: Protocol, message: &[u8]) -> bool {
    protocol != Protocol::Quic || !streams::message::has_keepalive(message)
}
