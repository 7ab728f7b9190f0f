//! The Measurer's counts against those of servers that count for themselves, and of a capture.

mod capture;
mod coredns;
mod dnsdist;
mod knot;
mod nsd;
mod unbound;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use record::{LossPlace, Trial};

use super::transports::{is_answered, tried};

/// A server that ends with the test.
struct Server(Child);

impl Server {
    /// Starts it, and waits until it takes connections at this address.
    fn start(program: &str, arguments: &[&str], listens_at: &str) -> Self {
        let server = Self(quiet(program).args(arguments).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(listens_at).is_err() {
            assert!(Instant::now() < until, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where programs are looked for: Debian has its daemons where only root looks.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// A program of Debian that prints nothing here.
fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", path()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What a program of Debian that talks to a server prints.
fn told(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).env("PATH", path()).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A counter of a server with this configuration, by the program that controls it (NSD, Unbound).
fn counter_of(control: &str, config: &str, counter: &str) -> u64 {
    let text = told(control, &["-c", config, "stats_noreset"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{counter}=")));
    line.unwrap_or_else(|| panic!("{counter} in {text}")).parse().unwrap()
}

/// The path of a file in a directory.
fn file(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

/// A trial of which the server counts as many queries as were sent.
fn agrees(server: &str, transport: &str, options: &[&str], counted: impl Fn() -> u64) -> Trial {
    let before = counted();
    let fixed = ["--transport", transport, "--validity", "response"];
    let trial = tried(server, &[&fixed, options].concat());
    // One more asked whether the server is there.
    assert_eq!(counted() - before, trial.sent + 1, "{transport}: {:?}", trial.losses);
    trial
}

/// The same by connections that end after some queries, each with its answer.
fn agrees_by_connections(server: &str, transport: &str, options: &[&str], counted: impl Fn() -> u64) {
    let options = [&["--queries-per-connection", "50"], options].concat();
    let trial = agrees(server, transport, &options, counted);
    is_answered(&trial);
    assert!(!trial.losses.contains_key(&LossPlace::ConnectionReset), "{:?}", trial.losses);
}
