//! The real dns64d as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use super::client::{Answer, ask};
use super::upstream::Upstream;

/// The signal that has dns64d read its configuration again.
pub const HANGUP: i32 = 1;
/// The signal that ends it.
pub const TERMINATE: i32 = 15;

/// A configuration file that goes with the test.
pub struct File {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl File {
    pub fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dns64d.toml");
        let this = Self { directory, path };
        this.write(text);
        this
    }

    pub fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    /// dns64d with this configuration.
    pub fn command(&self) -> Command {
        dns64d(&self.path)
    }

    /// Runs it to its end, with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }
}

fn dns64d(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    command.arg("--config").arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    sys::process::die_with_parent(&mut command);
    command
}

/// What most tests need: one thread, few ports, much patience, no questions but those of the test. `more` may
/// name these keys, too, and ends with tables.
pub fn config_text(upstreams: &[SocketAddr], more: &str) -> String {
    let upstreams: Vec<String> = upstreams.iter().map(|address| format!("'{address}'")).collect();
    let mut text = String::new();
    for (key, value) in [
        ("listen", "['[::1]:0']"),
        ("upstreams", &format!("[{}]", upstreams.join(", "))),
        ("prefixes", "['2001:db8:64::/96']"),
        ("threads", "1"),
        ("upstream.ports", "4"),
        ("upstream.loop_probe", "false"),
        // The machine may be busy.
        ("upstream.timeout_ms", "4000"),
        ("upstream.deadline_ms", "15000"),
    ] {
        let top = if more.starts_with('[') { "" } else { more.split("\n[").next().unwrap_or_default() };
        if !top.lines().any(|line| line.split(" =").next() == Some(key)) {
            text += &format!("{key} = {value}\n");
        }
    }
    text + more + "\n"
}

/// A dns64d that runs; it is killed with the test.
pub struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Where it answers, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    /// What it logged up to the line that says that it is ready.
    pub log: String,
    pub file: File,
}

impl Server {
    /// In front of one upstream server, with [`config_text`].
    pub fn before(upstream: &Upstream, more: &str) -> Self {
        Self::start(&config_text(&[upstream.address], more))
    }

    /// With this configuration file.
    pub fn start(text: &str) -> Self {
        let file = File::new(text);
        let command = file.command();
        Self::spawn(file, command)
    }

    /// By this command; waits until it is ready.
    pub fn spawn(file: File, mut command: Command) -> Self {
        let child = command.spawn().unwrap();
        Self::adopt(file, child)
    }

    /// That was started already, with a pipe for its log.
    pub fn adopt(file: File, mut child: Child) -> Self {
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        while !log.contains(" event=ready ") {
            let length = stderr.read_line(&mut log).unwrap();
            assert!(length > 0, "dns64d ended:\n{log}");
        }
        let mut this = Self { child, stderr, addresses: Vec::new(), log, file };
        let ready = this.ready_line();
        let list = ready.split_once("message=\"ready on ").and_then(|(_, rest)| rest.split(" (").next());
        this.addresses = list.unwrap_or_default().split(", ").map(address_of).collect();
        this
    }

    /// The line of the log that says where it answers.
    pub fn ready_line(&self) -> &str {
        self.log.lines().last().unwrap_or_default()
    }

    /// Where it answers first.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Asks over UDP, without EDNS.
    pub fn ask(&self, words: &str) -> Answer {
        ask(words).over_udp(self.address())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        sys::process::signal(self.pid(), signal).unwrap();
    }

    /// Has it read its configuration again, which must succeed.
    pub fn reload(&mut self) {
        self.signal(HANGUP);
        let line = self.hear(" event=reload ");
        assert!(line.contains("level=info"), "{line}");
    }

    /// Reads the log up to a line with these words, which it returns.
    pub fn hear(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "the log ended without {words}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Ends it with a signal; returns its exit code and its last words.
    pub fn end(mut self, signal: i32) -> (Option<i32>, String) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        let mut words = String::new();
        self.stderr.read_to_string(&mut words).unwrap();
        (status.code(), words)
    }
}

/// An address of the line; those of encrypted listeners have a scheme before them.
fn address_of(text: &str) -> SocketAddr {
    text.rsplit('/').next().unwrap_or_default().parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
