//! Programs started by the tests; they end with the test that started them.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything here may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place of certificates: those of tests are not those of whoever runs them.
pub const STATE_HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// Lets one measurement run at a time: two would disturb each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that could harm the next.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The instrument, ready to be given options.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sextant"));
    command.env("XDG_STATE_HOME", STATE_HOME);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the instrument to its end.
pub fn sextant(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// What it wrote to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A port that nobody has, below those that the kernel gives to sockets by itself (`ip_local_port_range`): no
/// connection takes it before the program that it is for.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let place = std::process::id() as u16 ^ NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + place % 12_000;
        let is_free = |host| TcpListener::bind((host, port)).is_ok() && UdpSocket::bind((host, port)).is_ok();
        if is_free("::1") && is_free("127.0.0.1") {
            return port;
        }
    }
}

/// A program in the background, ended when dropped.
pub struct Background {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Background {
    /// Starts it and waits for the line on standard error that holds `ready`; returns that line too.
    pub fn start(mut command: Command, ready: &str) -> (Self, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut background = Self { child, stderr };
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let read = background.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "the program ended before it was ready:\n{said}");
            said += &line;
            if line.contains(ready) {
                return (background, line);
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, for example `INT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end; returns the exit code, standard output and standard error.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).unwrap();
        }
        self.stderr.read_to_string(&mut err).unwrap();
        (status.code(), out, err)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An AuthDNS with a AAAA for every name under the default prefix of the Measurer; returns its address.
pub fn auth() -> (Background, String) {
    auth_with(&[])
}

/// The same with more options.
pub fn auth_with(options: &[&str]) -> (Background, String) {
    let arguments =
        ["auth", "--listen", "[::1]:0", "--aaaa-share", "100", "--aaaa-prefix", "2001:db8:64::/96"];
    let (auth, line) = Background::start(command(&[&arguments[..], options].concat()), "");
    let at = line.find("[::1]:").expect("the ready line names the address");
    let address: String =
        line[at..].chars().take_while(|c| !c.is_whitespace() && *c != ',' && *c != ';').collect();
    (auth, address)
}

/// The names of the processes whose parent is `pid`.
pub fn children_of(pid: u32) -> Vec<String> {
    children_pids_of(pid)
        .into_iter()
        .map(|child| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default())
        .collect()
}

/// The numbers of the processes whose parent is `pid`.
pub fn children_pids_of(pid: u32) -> Vec<u32> {
    let parent = format!("PPid:\t{pid}");
    let is_child = |child: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        status.lines().any(|line| line == parent)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}
