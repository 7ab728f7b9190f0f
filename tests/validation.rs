//! The real dns64d judges the answers of the real AuthDNS, and of a middleman between them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dns64::wire::{
    CLASS_IN, Edns, Header, Message, Name, Options, Question, Section, Writer, option_code, rcode, rtype,
};

const NAME: &str = "010-000-000-008.dns64perf.test";
/// 10.0.0.8 behind the prefix of these tests.
const SYNTHESIZED: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0x64, 0, 0, 0, 0, 0, 0, 10, 0, 0, 8];
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that runs; it is killed with the test.
struct Running(Child, SocketAddr);

impl Running {
    /// Starts it and reads where it answers from the first line with `mark`.
    fn start(program: &str, arguments: &[&str], mark: &str) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = sys::process::die_with_parent(&mut command).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.find(|line| line.contains(mark)).expect("a program that is ready");
        let at = ready.find("127.0.0.1:").unwrap();
        let address: String =
            ready[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        // What it says from now on must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child, address.parse().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The AuthDNS with its signed zone, and dns64d before it.
struct House {
    dns64d: Running,
    _authority: Running,
    _directory: tempfile::TempDir,
}

/// How a middleman changes a message of the AuthDNS.
type Change = fn(&mut Vec<u8>);

impl House {
    /// `change` makes the AuthDNS be asked by way of a middleman; `anchors` are those of the AuthDNS if
    /// `None`.
    fn with(change: Option<Change>, anchors: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key: PathBuf = directory.path().join("zone.key");
        let arguments =
            ["auth", "--listen", "127.0.0.1:0", "--signed", "--trust-anchor", key.to_str().unwrap()];
        let authority = Running::start(env!("CARGO_BIN_EXE_sextant"), &arguments, "auth: ready");
        if let Some(text) = anchors {
            std::fs::write(&key, text).unwrap();
        }
        let upstream = change.map_or(authority.1, |change| middleman(authority.1, change));
        let file = directory.path().join("dns64d.toml");
        write_config(&file, upstream);
        let arguments = ["--config", file.to_str().unwrap()];
        let dns64d = Running::start(env!("CARGO_BIN_EXE_dns64d"), &arguments, " event=ready ");
        Self { dns64d, _authority: authority, _directory: directory }
    }

    fn ask(&self, name: &str, qtype: u16, flags: u16, dnssec_ok: bool) -> Answer {
        let question = Question { name: Name::from_text(name).unwrap(), qtype, qclass: CLASS_IN };
        let mut query = [0; 512];
        let mut writer = Writer::new(&mut query, 7, Header::RD | flags, &question).unwrap();
        writer.edns(&Edns { payload_octets: 4096, extended_rcode: 0, version: 0, dnssec_ok }, &[]).unwrap();
        let length = writer.finish();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.dns64d.1).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(&query[..length]).unwrap();
        let mut answer = vec![0; 4096];
        let length = socket.recv(&mut answer).expect("an answer");
        answer.truncate(length);
        Answer(answer)
    }
}

fn write_config(file: &Path, upstream: SocketAddr) {
    let text = format!(
        "listen = ['127.0.0.1:0']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n\
         [upstream]\nvalidate = true\nanchors = 'zone.key'\ntimeout_ms = 5000\n"
    );
    std::fs::write(file, text).unwrap();
}

struct Answer(Vec<u8>);

impl Answer {
    fn message(&self) -> Message<'_> {
        Message::parse(&self.0).unwrap()
    }

    /// RCODE and AD.
    fn verdict(&self) -> (u8, bool) {
        let header = self.message().header;
        (header.rcode(), header.has(Header::AD))
    }

    fn has(&self, section: Section, rtype: u16) -> bool {
        self.message().records().map(Result::unwrap).any(|r| r.section == section && r.rtype == rtype)
    }

    fn addresses(&self, rtype: u16) -> Vec<Vec<u8>> {
        let message = self.message();
        message.answers().filter(|record| record.rtype == rtype).map(|record| record.rdata.to_vec()).collect()
    }

    fn extended_error(&self) -> Option<u16> {
        let message = self.message();
        Options::of(&message).find(option_code::EXTENDED_ERROR).map(|v| u16::from_be_bytes([v[0], v[1]]))
    }
}

/// Passes frames on over TCP, with those of the server changed.
fn middleman(server: SocketAddr, change: Change) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(server).unwrap();
            let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass(from_client, to_server, |_| ()));
            std::thread::spawn(move || pass(server, client, change));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, change: Change) {
    let mut length = [0; 2];
    while from.read_exact(&mut length).is_ok() {
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        if from.read_exact(&mut message).is_err() {
            return;
        }
        change(&mut message);
        let frame = [&(message.len() as u16).to_be_bytes(), message.as_slice()].concat();
        if to.write_all(&frame).is_err() {
            return;
        }
    }
}

/// Changes the last octet of the first record of a type.
fn spoil(octets: &mut [u8], rtype: u16) {
    let message = Message::parse(octets).unwrap();
    let found = message.records().map(Result::unwrap).find(|record| record.rtype == rtype);
    if let Some(at) = found.map(|record| record.rdata_position() + record.rdata.len() - 1) {
        octets[at] ^= 1;
    }
}

#[test]
fn what_is_proven_is_secure_and_synthesized() {
    let house = House::with(None, None);
    let a = house.ask(NAME, rtype::A, 0, true);
    assert_eq!(a.verdict(), (rcode::NOERROR, true));
    assert_eq!(a.addresses(rtype::A), [[10, 0, 0, 8]]);
    assert!(a.has(Section::Answer, rtype::RRSIG));
    // AD for those who do not want the records, but want to know.
    assert_eq!(house.ask(NAME, rtype::A, Header::AD, false).verdict(), (rcode::NOERROR, true));
    assert_eq!(house.ask(NAME, rtype::MX, Header::AD, false).verdict(), (rcode::NOERROR, true));
    let missing = house.ask("deep.below.nowhere.dns64perf.test", rtype::A, Header::AD, false);
    assert_eq!(missing.verdict(), (rcode::NXDOMAIN, true));
    // The denial of AAAA was secure, and so was A. What is made of them is ours and not signed (RFC 6147
    // 5.5).
    let synthesized = house.ask(NAME, rtype::AAAA, 0, false);
    assert_eq!(synthesized.verdict().0, rcode::NOERROR);
    assert_eq!(synthesized.addresses(rtype::AAAA), [SYNTHESIZED]);
}

#[test]
fn nothing_is_synthesized_over_a_bogus_denial() {
    let house = House::with(Some(|message| spoil(message, rtype::NSEC3)), None);
    let answer = house.ask(NAME, rtype::AAAA, 0, false);
    assert_eq!(answer.verdict(), (rcode::SERVFAIL, false));
    assert_eq!(answer.extended_error(), Some(6));
    // A is not denied.
    assert_eq!(house.ask(NAME, rtype::A, 0, true).verdict(), (rcode::NOERROR, true));
}

#[test]
fn nothing_is_synthesized_from_a_bogus_address() {
    let house = House::with(Some(|message| spoil(message, rtype::A)), None);
    for qtype in [rtype::A, rtype::AAAA] {
        let answer = house.ask(NAME, qtype, 0, false);
        assert_eq!(answer.verdict(), (rcode::SERVFAIL, false), "type {qtype}");
        assert!(answer.addresses(qtype).is_empty());
    }
    // Who judges for himself gets what there is.
    let unjudged = house.ask(NAME, rtype::A, Header::CD, true);
    assert_eq!(unjudged.verdict(), (rcode::NOERROR, false));
    assert_eq!(unjudged.addresses(rtype::A), [[10, 0, 0, 9]]);
}

#[test]
fn without_an_anchor_above_nothing_is_secure_and_nothing_bogus() {
    let anchor = format!("elsewhere.test. IN DS 1 15 2 {}", "00".repeat(32));
    let house = House::with(Some(|message| spoil(message, rtype::A)), Some(&anchor));
    assert_eq!(house.ask(NAME, rtype::A, 0, true).verdict(), (rcode::NOERROR, false));
}
