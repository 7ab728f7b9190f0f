//! Any octets of a DNS session over TCP, from a client to our server and from a server to our client: what is
//! taken for messages are the messages, each has one end, and the connection ends.
//!
//! An input is an octet that chooses the side and how the owner answers, one that says into what pieces the
//! stream is cut, and the octets of the stream.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use streams::message::{QUERY_OCTETS_MAX, is_reply, take_frame};
use streams::{Answer, Handle, Limits, ListenSocket, Listener, Protocol, Query, Streams, Upstream};

use super::input::Input;

/// Nothing here takes so long but what never comes.
const PATIENCE: Duration = Duration::from_secs(8);
const TOKEN: u64 = 7;

/// AAAA of `a.test`.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x1c\0\x01";

/// Both sides of the crate, and what its owner saw.
struct Both {
    streams: Streams,
    server: SocketAddr,
    queries: Arc<Mutex<Vec<Query>>>,
    /// Every query whose first octet has a bit of these is forgotten instead of answered.
    forgets: Arc<Mutex<u8>>,
    answers: Mutex<Receiver<Answer>>,
    script: Arc<Mutex<Script>>,
}

/// What the upstream server says on each connection, and what it was asked and said.
#[derive(Default)]
struct Script {
    piece: u8,
    stream: Vec<u8>,
    said: Vec<(Vec<u8>, Vec<u8>)>,
}

static BOTH: LazyLock<Both> = LazyLock::new(|| {
    let (queries, forgets) = (Arc::default(), Arc::new(Mutex::new(0)));
    let own = Arc::new(OnceLock::<Handle>::new());
    let on_query = on_query(Arc::clone(&own), Arc::clone(&queries), Arc::clone(&forgets));
    let (sender, answers) = mpsc::channel();
    let streams = Streams::start("fuzz", 1, on_query, move |answer| {
        let _ = sender.send(answer);
    });
    let streams = streams.expect("a thread");
    assert!(own.set(streams.handle()).is_ok());
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = socket.local_addr().expect("an address");
    let socket = ListenSocket::Tcp(socket);
    let listener = Listener { protocol: Protocol::Tcp, number: 0, socket, path: String::new() };
    streams.listen(vec![listener], None, Limits::default()).expect("a listener");
    let (script, upstream) = (Arc::default(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let target = Upstream {
        address: upstream.local_addr().expect("an address"),
        protocol: Protocol::Tcp,
        tls_name: None,
        path: String::new(),
        source: None,
        roots: None,
        in_flight: 8,
    };
    streams.set_upstreams(1, vec![target]).expect("an upstream server");
    let own = Arc::clone(&script);
    std::thread::spawn(move || serve(&upstream, &own));
    Both { streams, server, queries, forgets, answers: Mutex::new(answers), script }
});

/// The owner: it answers a query with the query, made a response, or forgets it.
fn on_query(
    handle: Arc<OnceLock<Handle>>,
    queries: Arc<Mutex<Vec<Query>>>,
    forgets: Arc<Mutex<u8>>,
) -> impl Fn(Query) + Send + Sync {
    move |query| {
        let handle = handle.get().expect("queries come after the listener");
        let forgets = *forgets.lock().expect("a lock");
        queries.lock().expect("a lock").push(query.clone());
        if query.octets[0] & forgets != 0 {
            handle.forget(query.token);
        } else {
            handle.answer(query.token, &response(&query.octets));
        }
    }
}

fn response(query: &[u8]) -> Vec<u8> {
    let mut octets = query.to_vec();
    octets[2] |= 0x80;
    octets
}

/// Plays the stream.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let (choice, piece) = (input.octet(), input.octet());
    if choice & 1 == 0 {
        client_says(&BOTH, choice & !1, piece, input.0);
    } else {
        server_says(&BOTH, piece, input.0);
    }
}

/// The whole messages at the start of a stream, and whether it is well-formed up to its end.
fn messages(stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut input = stream.into();
    let mut messages = Vec::new();
    loop {
        match take_frame(&mut input) {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, input.is_empty()),
            Err(_) => return (messages, false),
        }
    }
}

/// Writes the stream in pieces; the other side may end the connection first.
fn write(connection: &mut TcpStream, piece: u8, stream: &[u8]) {
    let piece = if piece == 0 { stream.len().max(1) } else { usize::from(piece) };
    for octets in stream.chunks(piece) {
        if connection.write_all(octets).is_err() {
            return;
        }
    }
    let _ = connection.shutdown(Shutdown::Write);
}

/// A client of our server.
fn client_says(both: &Both, forgets: u8, piece: u8, stream: &[u8]) {
    *both.forgets.lock().expect("a lock") = forgets;
    both.queries.lock().expect("a lock").clear();
    let mut connection = TcpStream::connect(both.server).expect("a connection");
    connection.set_nodelay(true).expect("an option");
    connection.set_read_timeout(Some(PATIENCE)).expect("an option");
    write(&mut connection, piece, stream);
    let mut answers = Vec::new();
    let ended = connection.read_to_end(&mut answers);
    let (mut expected, mut is_whole) = messages(stream);
    // Queries end where one is too long.
    if let Some(at) = expected.iter().position(|query| query.len() > QUERY_OCTETS_MAX) {
        expected.truncate(at);
        is_whole = false;
    }
    let queries = both.queries.lock().expect("a lock");
    let seen: Vec<&[u8]> = queries.iter().map(|query| &query.octets[..]).collect();
    assert!(expected.iter().map(Vec::as_slice).take(seen.len()).eq(seen.iter().copied()), "other queries");
    let mut tokens: Vec<u64> = queries.iter().map(|query| query.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), queries.len(), "a token of two queries");
    if let Err(error) = ended {
        // What comes after a message that is malformed is not read: the connection may be reset.
        assert!(!is_whole && error.kind() == std::io::ErrorKind::ConnectionReset, "{error}");
        return;
    }
    let (answers, ends_whole) = messages(&answers);
    assert!(ends_whole, "half an answer");
    let mut wanted: Vec<Vec<u8>> =
        seen.iter().filter(|query| query[0] & forgets == 0).map(|query| response(query)).collect();
    if is_whole {
        assert_eq!(seen.len(), expected.len(), "a query is missing");
        assert_eq!(answers.len(), wanted.len(), "an answer is missing");
    }
    for answer in answers {
        let at = wanted.iter().position(|own| *own == answer).expect("an answer of the owner, once");
        wanted.swap_remove(at);
    }
}

/// An upstream server of our client, on as many connections as the client makes.
fn server_says(both: &Both, piece: u8, stream: &[u8]) {
    *both.script.lock().expect("a lock") = Script { piece, stream: stream.to_vec(), said: Vec::new() };
    both.streams.handle().ask(1, 0, TOKEN, QUERY.to_vec(), PATIENCE);
    let answer = both.answers.lock().expect("a lock").recv_timeout(PATIENCE).expect("an answer or none");
    assert_eq!(answer.token, TOKEN);
    let script = both.script.lock().expect("a lock");
    assert!((1..=2).contains(&script.said.len()), "asked {} times", script.said.len());
    let wanted = script.said.iter().find_map(|(query, stream)| {
        let is_it = |reply: &Vec<u8>| reply[..2] == query[..2] && is_reply(query, reply);
        messages(stream).0.into_iter().find(is_it)
    });
    let wanted = wanted.map(|mut reply| {
        reply[..2].copy_from_slice(&QUERY[..2]);
        reply
    });
    assert_eq!(answer.octets.ok(), wanted);
}

/// The upstream server: the same stream on each connection, and then its end.
fn serve(listener: &TcpListener, script: &Mutex<Script>) {
    for connection in listener.incoming() {
        let mut connection = connection.expect("a connection");
        connection.set_nodelay(true).expect("an option");
        connection.set_read_timeout(Some(PATIENCE)).expect("an option");
        let mut query = [0; 2 + QUERY.len()];
        connection.read_exact(&mut query).expect("a query");
        let query = query[2..].to_vec();
        assert_eq!(query[2..], QUERY[2..], "the question");
        let (piece, stream) = {
            let mut script = script.lock().expect("a lock");
            let mut stream = script.stream.clone();
            // The query's ID stands where the first message has one: nobody guesses it.
            if let Some(id) = stream.get_mut(2..4) {
                id.copy_from_slice(&query[..2]);
            }
            script.said.push((query, stream.clone()));
            (script.piece, stream)
        };
        write(&mut connection, piece, &stream);
        // Until our client has closed the connection.
        let _ = connection.read_to_end(&mut Vec::new());
    }
}
