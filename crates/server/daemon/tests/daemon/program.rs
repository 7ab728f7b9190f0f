//! The program as a child process, with a service manager that listens.

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use super::SERVE;

const PATIENCE: Duration = Duration::from_secs(20);

/// A directory with a configuration, for one program.
pub struct Surroundings {
    directory: tempfile::TempDir,
    config: PathBuf,
}

impl Surroundings {
    /// A configuration with a control socket and what `more` says.
    pub fn new(more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Another user reads it, too.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = directory.path().join("dns64d.toml");
        let this = Self { directory, config };
        this.write(&this.base(more));
        this
    }

    /// The text of that configuration. Top-level keys may follow where `more` is empty.
    pub fn base(&self, more: &str) -> String {
        format!(
            "listen = ['127.0.0.1:0']\nupstreams = ['192.0.2.1']\ncontrol.socket = '{}'\n{}{more}",
            self.socket().display(),
            if more.contains("[process]") { "" } else { "process.sandbox = false\n" },
        )
    }

    pub fn write(&self, text: &str) {
        std::fs::write(&self.config, text).unwrap();
    }

    pub fn config_text(&self) -> &str {
        self.config.to_str().unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("control")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env_clear().env(SERVE, "1").current_dir(self.directory.path());
        sys::process::die_with_parent(&mut command);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command().args(words).output().unwrap()
    }

    /// Runs a control command: its answer, or the exit code.
    pub fn control(&self, words: &[&str]) -> Result<String, i32> {
        let socket = self.socket();
        let output = self.run(&[&["control", "--socket", socket.to_str().unwrap()], words].concat());
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(output.status.code().unwrap())
        }
    }

    pub fn has_no_landlock(&self) -> bool {
        self.control(&["status"]).unwrap().contains("no landlock")
    }
}

/// The program, serving.
pub struct Program {
    child: Child,
    manager: UnixDatagram,
    address: SocketAddr,
}

impl Program {
    /// Starts it, and waits until it is ready.
    pub fn start(here: &Surroundings, environment: &[(&str, &str)]) -> Self {
        let mut command = here.command();
        command.args(["--config", here.config_text()]).envs(environment.iter().copied());
        Self::spawn(here, command)
    }

    /// Starts it as a service manager does that has a socket for it.
    pub fn activate(here: &Surroundings, socket: UdpSocket) -> Self {
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .env(SERVE, "1")
            .args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --config \"$1\" 3<&0"])
            .arg(std::env::current_exe().unwrap())
            .arg(here.config_text())
            .stdin(OwnedFd::from(socket));
        sys::process::die_with_parent(&mut command);
        Self::spawn(here, command)
    }

    fn spawn(here: &Surroundings, mut command: Command) -> Self {
        let path = here.directory.path().join("manager");
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let child = command.env("NOTIFY_SOCKET", &path).stderr(Stdio::piped()).spawn().unwrap();
        let mut this = Self { child, manager, address: ([127, 0, 0, 1], 0).into() };
        let ready = this.hear("READY=1");
        let address = ready.split_once("ready on ").unwrap().1.split(" (").next().unwrap();
        this.address = address.parse().unwrap();
        this
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for words of the program to its service manager.
    pub fn hear(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut octets = [0; 512];
            let length = self.manager.recv(&mut octets).unwrap_or_else(|error| {
                panic!("did not hear {words}: {error}");
            });
            let heard = String::from_utf8(octets[..length].to_vec()).unwrap();
            if heard.starts_with(words) {
                return heard;
            }
        }
        panic!("did not hear {words}");
    }

    /// Has the server echo something, or answer a question.
    pub fn talk(&self, words: &str) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(words.as_bytes(), self.address).unwrap();
        let mut octets = [0; 512];
        let length = socket.recv(&mut octets).unwrap();
        String::from_utf8(octets[..length].to_vec()).unwrap()
    }

    pub fn signal(&self, signal: i32) {
        sys::process::signal(self.child.id(), signal).unwrap();
    }

    /// Ends it by SIGTERM: its exit status, and what it logged.
    pub fn finish(self) -> (ExitStatus, String) {
        self.signal(libc::SIGTERM);
        self.end()
    }

    /// Waits for its end, until which it must not say these words to its service manager.
    pub fn end_without(self, words: &str) -> (ExitStatus, String) {
        loop {
            let heard = self.hear("");
            assert!(!heard.starts_with(words), "{heard}");
            if heard.starts_with("STOPPING=1") {
                return self.end();
            }
        }
    }

    /// Waits for its end.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
