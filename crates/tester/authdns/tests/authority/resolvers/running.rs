//! A resolver that runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::base::iana::{Rcode, Rtype};

use super::Setup;
use crate::zone::{Offer, query, rcode};

const PATIENCE: Duration = Duration::from_secs(30);

/// A resolver that runs; it is killed when the test ends.
pub struct Running {
    child: Child,
    directory: tempfile::TempDir,
    address: SocketAddr,
}

impl Running {
    /// Starts it and waits until it answers at all; `None`, and a word why, where it is not installed.
    pub fn start(setup: &Setup, authority_port: u16) -> Option<Self> {
        let program = setup.resolver.program();
        if !Path::new(program).exists() {
            testing::skip(&format!("program {program}"), format!("{program} is not installed"));
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        setup.write(directory.path(), address.port(), authority_port).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(setup.resolver.arguments(directory.path().to_str().unwrap())).stdin(Stdio::null());
        command.current_dir(directory.path()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = sys::process::die_with_parent(&mut command).spawn().unwrap();
        let mut running = Self { child, directory, address };
        running.await_answers();
        Some(running)
    }

    fn await_answers(&mut self) {
        let start = Instant::now();
        let query = query("ns.dns64perf.test", Rtype::A, None);
        while self.ask_within(&query, Duration::from_millis(300)).is_none() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the resolver ended: {ended:?}\n{}", self.log());
            assert!(start.elapsed() < PATIENCE, "the resolver does not answer\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ask_within(&self, query: &[u8], timeout: Duration) -> Option<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(timeout)).unwrap();
        socket.connect(self.address).unwrap();
        socket.send(query).ok()?;
        let mut answer = [0; 4096];
        let length = socket.recv(&mut answer).ok()?;
        Some(answer[..length].to_vec())
    }

    /// Asks over UDP, and over TCP where the answer says so.
    pub fn ask(&self, name: &str, qtype: Rtype, offer: Offer) -> Vec<u8> {
        let mut query = query(name, qtype, offer);
        // AD: the client understands the answer's (RFC 6840 5.7).
        query[3] |= 0x20;
        let answer = self.ask_within(&query, PATIENCE);
        let answer = answer.unwrap_or_else(|| panic!("no answer for {name} {qtype}\n{}", self.log()));
        if answer[2] & 2 == 0 { answer } else { self.ask_tcp(&query) }
    }

    fn ask_tcp(&self, query: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).unwrap();
        answer
    }

    /// Asks, and checks the RCODE.
    pub fn expect(&self, name: &str, qtype: Rtype, offer: Offer, expected: Rcode) -> Vec<u8> {
        let answer = self.ask(name, qtype, offer);
        assert_eq!(rcode(&answer).0, expected, "{name} {qtype}\n{}", self.log());
        answer
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
