//! A server process from its start to its end. The process ends with `sextant`, however `sextant` ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::scratch::Scratch;

/// How long a server may take to end after `SIGTERM` before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a stopping server is looked at.
const STOP_POLL: Duration = Duration::from_millis(5);
/// How much of a log's end is read, in octets.
const LOG_TAIL_OCTETS: u64 = 64 * 1024;
/// How many lines of the log an error message carries.
const LAST_LINES: usize = 3;
/// The log's name in the scratch directory; servers that insist on opening a log themselves are given it too.
pub(super) const LOG_NAME: &str = "server.log";

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The name used in messages, for example `unbound`.
    pub label: String,
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// Variables beside `PATH`, `HOME` and `LANG`, which are all it inherits.
    pub environment: Vec<(String, String)>,
    /// The processors it is kept on; none: wherever the system likes.
    pub cpus: Vec<usize>,
    /// The network namespace it runs in; none: this process's.
    pub namespace: Option<String>,
}

/// A running server. Dropping it stops it, waits for it and removes its directory.
#[derive(Debug)]
pub struct Child {
    label: String,
    // Dropped in this order: the directory and the thread go after the process.
    process: std::process::Child,
    scratch: Scratch,
    _spawner: Spawner,
}

/// A server that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiedWith {
    /// The name of the server, for messages.
    pub label: String,
    /// How it ended.
    pub exit: Exit,
    /// The last lines of its output, oldest first.
    pub last_lines: Vec<String>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself with this exit code.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        // wait(2) gives one or the other; without WUNTRACED nothing else.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }
}

impl fmt::Display for DiedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended by itself ({})", self.label, self.exit)?;
        if self.last_lines.is_empty() {
            return f.write_str(" and said nothing");
        }
        write!(f, "; it said: {}", self.last_lines.join(" / "))
    }
}

impl std::error::Error for DiedWith {}

impl Child {
    /// Starts a server in `scratch`, as the user who owns it, its output going to a log there.
    ///
    /// The server has a process group of its own, so that a Ctrl-C at the terminal reaches the instrument
    /// first, and the kernel kills it when the instrument ends without stopping it.
    ///
    /// # Errors
    /// The program cannot be started; the message names it and the user, or the processor that is not there.
    pub fn start(launch: &Launch, scratch: Scratch) -> io::Result<Self> {
        check_cpus(&launch.cpus)?;
        let program = scratch.make_reachable(&launch.program)?;
        let output = File::options().append(true).open(scratch.write(LOG_NAME, b"")?)?;
        let mut command = Command::new(&program);
        command
            .args(&launch.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", scratch.path())
            .env("LANG", "C")
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        if let Some(account) = scratch.account() {
            // As root std also drops the supplementary groups.
            command.gid(account.gid).uid(account.uid);
        }
        if !launch.cpus.is_empty() {
            sys::process::set_affinity(&mut command, &launch.cpus);
        }
        sys::process::die_with_parent(&mut command);
        let (process, spawner) = spawn_for_life(command, launch.namespace.clone())
            .map_err(|error| start_error(&error, launch, &scratch))?;
        Ok(Self { label: launch.label.clone(), process, scratch, _spawner: spawner })
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The scratch directory, removed when the child is stopped.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It ended by itself: how, and what it said last.
    pub fn check_alive(&mut self) -> Result<(), DiedWith> {
        let Ok(Some(status)) = self.process.try_wait() else { return Ok(()) };
        let mut last = VecDeque::with_capacity(LAST_LINES);
        let log = self.log();
        for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        }
        Err(DiedWith { label: self.label.clone(), exit: status.into(), last_lines: last.into() })
    }

    /// The end of what it has written so far, at most 64 KiB.
    pub fn log(&self) -> String {
        read_tail(&self.scratch.path().join(LOG_NAME)).unwrap_or_default()
    }

    /// Stops it, and returns the end of its log.
    pub fn stop(mut self) -> String {
        self.end();
        self.log()
    }

    fn end(&mut self) {
        // `try_wait` has not collected it yet, so its number cannot belong to another process.
        if let Ok(None) = self.process.try_wait() {
            let _ = sys::process::terminate(self.process.id());
            let deadline = Instant::now() + STOP_TIMEOUT;
            while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(STOP_POLL);
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

fn check_cpus(cpus: &[usize]) -> io::Result<()> {
    let usable = sys::cpu::available();
    match cpus.iter().find(|cpu| !usable.contains(cpu)) {
        Some(cpu) => {
            let text = format!("processor {cpu} cannot be used here; these can: {usable:?}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        None => Ok(()),
    }
}

fn start_error(error: &io::Error, launch: &Launch, scratch: &Scratch) -> io::Error {
    let user = scratch.account().map(|account| format!(" as user {}", account.name)).unwrap_or_default();
    let place = scratch.path().display();
    let program = launch.program.display();
    io::Error::new(error.kind(), format!("cannot start {program}{user} in {place}: {error}"))
}

/// The thread that spawned a program. It ends when this is dropped.
#[derive(Debug)]
struct Spawner {
    _alive: mpsc::Sender<()>,
}

/// Spawns from a thread that lives as long as the program: the kernel kills a child when the *thread* that
/// spawned it ends, and the caller's may end while its server is still being measured. The thread enters the
/// namespace, which the program, without privileges, could not.
fn spawn_for_life(
    mut command: Command,
    namespace: Option<String>,
) -> io::Result<(std::process::Child, Spawner)> {
    let (reply, spawned) = mpsc::channel();
    let (alive, ended) = mpsc::channel::<()>();
    thread::Builder::new().name("spawner".into()).spawn(move || {
        let entered = namespace.map_or(Ok(()), |namespace| sys::netns::enter(&namespace));
        // The caller waits for this, so it is there.
        let _ = reply.send(entered.and_then(|()| command.spawn()));
        // An error says that the other end is gone, and with it the program.
        let _ = ended.recv();
    })?;
    let without_reply = |_| Err(io::Error::other("the thread that starts servers is not there"));
    let process = spawned.recv().unwrap_or_else(without_reply)?;
    Ok((process, Spawner { _alive: alive }))
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_OCTETS)))?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL_OCTETS).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(script: &str) -> Child {
        let launch = Launch {
            label: "sh".into(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            ..Launch::default()
        };
        Child::start(&launch, Scratch::new("child-test", None).unwrap()).unwrap()
    }

    fn wait_for_log(child: &Child, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !child.log().contains(text) {
            assert!(Instant::now() < deadline, "'{text}' never came: {}", child.log());
            thread::sleep(STOP_POLL);
        }
    }

    #[test]
    fn a_child_that_dies_is_reported_with_its_last_lines() {
        let mut child = shell("echo one; echo two >&2; echo; echo three; echo four; exit 7");
        let deadline = Instant::now() + Duration::from_secs(10);
        let died = loop {
            match child.check_alive() {
                Err(died) => break died,
                Ok(()) => assert!(Instant::now() < deadline),
            }
            thread::sleep(STOP_POLL);
        };
        assert_eq!(died.exit, Exit::Code(7));
        assert_eq!(died.last_lines, ["two", "three", "four"]);
        assert_eq!(died.to_string(), "sh ended by itself (exit code 7); it said: two / three / four");
        assert_eq!(child.check_alive(), Err(died), "it stays dead");
    }

    #[test]
    fn dropping_stops_a_child_that_ignores_sigterm_and_removes_its_directory() {
        let child = shell("trap '' TERM; echo up; while :; do sleep 1; done");
        wait_for_log(&child, "up");
        let (pid, directory) = (child.pid(), child.directory().to_owned());
        drop(child);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(!directory.exists());
    }

    #[test]
    fn the_child_runs_unprivileged_on_its_processor_with_a_bare_environment() {
        let cpu = *sys::cpu::available().last().unwrap();
        let launch = Launch {
            label: "sh".into(),
            program: "/bin/sh".into(),
            arguments: vec![
                "-c".into(),
                "grep -E '^(Uid|Groups|Cpus_allowed_list)' /proc/self/status; env; echo end".into(),
            ],
            environment: vec![("GOMAXPROCS".into(), "1".into())],
            cpus: vec![cpu],
            ..Launch::default()
        };
        let child = Child::start(&launch, Scratch::new("child-test", None).unwrap()).unwrap();
        wait_for_log(&child, "end");
        let log = child.log();
        let field = |name: &str| {
            let line = log.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches([':', '=']).trim().to_owned()
        };
        assert_eq!(field("Cpus_allowed_list"), cpu.to_string());
        assert_eq!(field("GOMAXPROCS"), "1");
        assert_eq!(field("HOME"), child.directory().display().to_string());
        assert_eq!(field("CARGO_MANIFEST_DIR"), "", "nothing else is inherited");
        assert!(!field("Uid").starts_with('0'), "{log}");
        if sys::process::is_root() {
            assert_eq!(field("Groups"), "");
        }
    }

    #[test]
    fn the_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| shell("echo up; sleep 30")).join().unwrap();
        wait_for_log(&child, "up");
        child.check_alive().unwrap();
        let directory = child.directory().to_owned();
        assert!(fs::metadata(&directory).is_ok());
        assert_eq!(child.stop(), "up\n");
        assert!(!directory.exists());
    }

    #[test]
    fn a_program_that_cannot_start_is_named() {
        let launch = Launch { program: "/etc/passwd".into(), ..Launch::default() };
        let error = Child::start(&launch, Scratch::new("child-test", None).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("cannot start /etc/passwd"), "{error}");
        let launch = Launch { program: "/bin/true".into(), cpus: vec![0, 8191], ..Launch::default() };
        let error = Child::start(&launch, Scratch::new("child-test", None).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("processor 8191 cannot be used here"), "{error}");
    }
}
