//! The conversations with the real dns64d, between a client and an upstream server that the test plays.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dns64::wire::{HEADER_LENGTH, Header, Message};

use crate::histories::{History, Step, histories};
use crate::support::{lines, question};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn nothing_that_brought_others_down_stops_dns64d() {
    std::thread::scope(|scope| {
        for history in histories() {
            scope.spawn(move || play(&history));
        }
    });
}

fn play(history: &History) {
    let upstream = socket();
    let mut server = Server::start(upstream.local_addr().unwrap());
    let client = socket();
    client.connect(server.address).unwrap();
    for (number, step) in history.steps.iter().enumerate() {
        let place = format!("{}, step {number}", history.name);
        match step {
            Step::Ask(message) => drop(client.send(message).unwrap()),
            Step::Told { words, reply } => tell(&upstream, words, reply, &place),
            Step::Silence => {}
            Step::Wait { seconds } => std::thread::sleep(Duration::from_secs((*seconds).into())),
            Step::Answer { rcode, records } => {
                let mut buffer = [0; 4096];
                let length = client.recv(&mut buffer).unwrap_or_else(|error| panic!("{place}: {error}"));
                let answer = &buffer[..length];
                assert_eq!(Header::parse(answer).unwrap().rcode(), *rcode, "{place}");
                assert_eq!(lines(answer), *records, "{place}");
            }
        }
        assert_eq!(server.child.try_wait().unwrap(), None, "{place}: dns64d has ended");
    }
}

/// Answers the next query, which must ask for these words, with what a reply holds behind its question.
fn tell(upstream: &UdpSocket, words: &str, reply: &[u8], place: &str) {
    let mut buffer = [0; 4096];
    let (length, from) = upstream.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{place}: {error}"));
    let query = Message::parse(&buffer[..length]).unwrap();
    let expected = question(words);
    assert_eq!((query.question().name, query.qtype), (expected.name, expected.qtype), "{place}");
    let end = Message::parse(reply).unwrap().question_end();
    let head = [&buffer[..2], &reply[2..HEADER_LENGTH], &buffer[HEADER_LENGTH..end], &reply[end..]].concat();
    upstream.send_to(&head, from).unwrap();
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A dns64d that runs; it is killed with the test.
struct Server {
    child: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start(upstream: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dns64d.toml");
        let text = format!(
            "listen = ['127.0.0.1:0']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n\
             [upstream]\nloop_probe = false\n[local]\nspecial_names = false\n"
        );
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dns64d"));
        command.arg("--config").arg(&path).stdin(Stdio::null()).stderr(Stdio::piped());
        sys::process::die_with_parent(&mut command);
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = log.find(|line| line.contains(" event=ready ")).expect("a server that is ready");
        // What it says from here on must not fill the pipe.
        std::thread::spawn(move || log.for_each(drop));
        let (_, rest) = ready.split_once("message=\"ready on ").unwrap_or_else(|| panic!("{ready}"));
        let address = rest.split([' ', ',']).next().unwrap().parse().unwrap();
        Self { child, address, _directory: directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
