//! Other programs: kdig as client, Unbound as upstream server.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use dns64::wire::{Message, rtype};
use streams::{Limits, Protocol};

use crate::common::*;

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sextant-streams-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Runs kdig, or says that it is not there.
fn kdig(server: SocketAddr, options: &[&str]) -> Option<Output> {
    if !testing::has_program("kdig", "knot-dnsutils") {
        return None;
    }
    let output = Command::new("kdig")
        .args(["+timeout=10", "+retry=0", "-p", &server.port().to_string()])
        .arg(format!("@{}", server.ip()))
        .args(options)
        .output();
    Some(output.unwrap())
}

#[test]
fn kdig_is_served_over_every_protocol() {
    let server = Server::start(&Protocol::UPSTREAM, Limits::default(), answers);
    let directory = Directory::new("kdig");
    let authority = format!("+tls-ca={}", directory.write("ca.pem", &server.certificate.certificate));
    let hostname = format!("+tls-hostname={NAME}");
    let https = format!("+https=https://{NAME}{PATH}");
    let cases: [(Protocol, &[&str]); 5] = [
        (Protocol::Tcp, &["+tcp", "+keepopen"]),
        (Protocol::Tls, &["+tls", &authority, &hostname]),
        (Protocol::Https, &[&https, &authority, &hostname]),
        (Protocol::Https, &[&https, "+https-get", &authority, &hostname]),
        (Protocol::Quic, &[&authority, &hostname, "+quic"]),
    ];
    for (protocol, options) in cases {
        let options = [options, &["AAAA", "www.example.test"]].concat();
        let Some(output) = kdig(server.addresses[protocol.index()], &options) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("909:909:909:909:909:909:909:909"), "{protocol} {options:?}: {output:?}");
        assert!(text.contains("\t77\t") || text.contains(" 77 "), "{protocol}: {text}");
    }
    assert_eq!(server.queries.lock().unwrap().len(), 5);
}

/// Unbound as a server of local data over TLS and HTTPS.
struct Unbound {
    process: Child,
    tls: SocketAddr,
    https: SocketAddr,
    _directory: Directory,
}

impl Unbound {
    /// `None` where it is not installed.
    fn start(certificate: &Certificate) -> Option<Self> {
        let directory = Directory::new("unbound");
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (tls, https) = (free(), free());
        let configuration = format!(
            "server:\n  chroot: \"\"\n  username: \"\"\n  directory: \"{0}\"\n  pidfile: \"\"\n  use-syslog: no\n  \
             do-daemonize: no\n  do-ip6: no\n  module-config: \"iterator\"\n  interface: 127.0.0.1@{1}\n  \
             interface: 127.0.0.1@{2}\n  tls-port: {1}\n  https-port: {2}\n  tls-service-pem: \"{3}\"\n  \
             tls-service-key: \"{4}\"\n  local-data: \"www.example.test. 77 IN AAAA 2001:db8::1\"\n\
             remote-control:\n  control-enable: no\n",
            directory.0.display(),
            tls.port(),
            https.port(),
            directory.write("certificate.pem", &certificate.certificate),
            directory.write("key.pem", &certificate.key),
        );
        let file = directory.write("unbound.conf", &configuration);
        let log = File::create(directory.0.join("log")).unwrap();
        let started =
            Command::new("unbound").args(["-d", "-c", &file]).stdout(Stdio::null()).stderr(log).spawn();
        let process = match started {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                testing::skip("program unbound", "unbound is not installed: apt-get install unbound");
                return None;
            }
            process => process.unwrap(),
        };
        until("unbound listens", || [tls, https].iter().all(|at| TcpStream::connect(at).is_ok()));
        Some(Self { process, tls, https, _directory: directory })
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn unbound_is_asked_over_tls_and_https() {
    let certificate = Certificate::new();
    let Some(unbound) = Unbound::start(&certificate) else { return };
    let roots = Some(certificate.roots());
    let asker = Asker::new(vec![
        upstream(Protocol::Tls, unbound.tls, roots.clone()),
        upstream(Protocol::Https, unbound.https, roots),
    ]);
    for server in [0, 1] {
        for token in 0..50 {
            asker.send(server, token, query(token as u16, "www.example.test"));
        }
        for _ in 0..50 {
            let answer = asker.next();
            let octets = answer.octets.unwrap();
            let message = Message::parse(&octets).unwrap();
            assert_eq!(message.header.id, answer.token as u16);
            let record = message.answers().next().unwrap();
            assert_eq!((record.rtype, record.ttl, record.rdata[15]), (rtype::AAAA, 77, 1));
        }
    }
    assert_eq!(asker.streams.counts().upstreams.connections, 2);
}
