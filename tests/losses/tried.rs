//! Trials of the real `sextant`, and what holds for each.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::running::stderr;

/// A trial as `sextant trial --json` printed it.
pub struct TrialRun {
    pub trial: Value,
    pub code: Option<i32>,
}

/// The options of a trial against a server; its first name is the one with index 0.
pub fn options<'o>(server: &'o str, rate: &'o str, seconds: &'o str) -> Vec<&'o str> {
    vec!["trial", "--server", server, "--rate", rate, "--duration", seconds, "--first-name", "0", "--json"]
}

/// Runs a trial to its end, with more options.
pub fn trial(server: SocketAddr, rate: &str, seconds: &str, more: &[&str]) -> TrialRun {
    let server = server.to_string();
    TrialRun::read(&super::running::sextant(&[&options(&server, rate, seconds)[..], more].concat()))
}

impl TrialRun {
    pub fn read(output: &Output) -> Self {
        let trial = serde_json::from_slice(&output.stdout);
        let tried = Self {
            trial: trial.unwrap_or_else(|_| panic!("{}", stderr(output))),
            code: output.status.code(),
        };
        tried.check();
        tried
    }

    /// What holds however busy the machine is.
    fn check(&self) {
        let classes = ["valid", "invalid", "late"].map(|name| self.number(name));
        assert_eq!(self.number("answered"), classes.iter().sum::<u64>(), "{}", self.trial);
        assert_eq!(self.number("sent"), self.number("answered") + self.number("lost"), "{}", self.trial);
        let losses: u64 = self.trial["losses"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(losses, self.number("scheduled") - self.number("valid"), "{}", self.trial);
        let expected = ["pass", "fail", "", "void"].iter().position(|name| *name == self.trial["outcome"]);
        assert_eq!(self.code.map(|code| code as usize), expected, "{}", self.trial);
    }

    pub fn number(&self, name: &str) -> u64 {
        self.trial[name].as_u64().unwrap_or_else(|| panic!("{name} in {}", self.trial))
    }

    /// Queries lost at a place; 0 where the record does not name it.
    pub fn lost_at(&self, place: &str) -> u64 {
        self.trial["losses"][place].as_u64().unwrap_or(0)
    }

    /// The places where queries were lost and no others, with their counts.
    #[track_caller]
    pub fn expect_losses(&self, expected: &[(&str, u64)]) {
        let found: Vec<(&str, u64)> = self.trial["losses"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(place, count)| (place.as_str(), count.as_u64().unwrap()))
            .collect();
        assert_eq!(found, expected, "{}", self.trial);
    }

    /// Not blamed on the server, for this reason.
    #[track_caller]
    pub fn expect_void(&self, reason: &str) {
        assert_eq!(self.code, Some(3), "{}", self.trial);
        assert!(self.trial["void"].as_str().unwrap().contains(reason), "{}", self.trial);
    }

    /// Blamed on the server; a busy machine may have voided the trial all the same.
    #[track_caller]
    pub fn expect_fail(&self) {
        match self.trial["void"].as_str() {
            None => assert_eq!(self.code, Some(1), "{}", self.trial),
            Some(void) => assert!(
                ["was late", "unevenly", "may have caused", "alone", "other programs used"]
                    .iter()
                    .any(|text| void.contains(text)),
                "{}",
                self.trial
            ),
        }
    }
}

/// A Measurer that runs while the test does something to it.
#[derive(Clone, Default)]
pub struct Measurer(Arc<Mutex<Option<u32>>>);

impl Measurer {
    /// Runs a trial to its end.
    pub fn run(&self, mut command: Command) -> TrialRun {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().unwrap();
        *self.0.lock().unwrap() = Some(child.id());
        TrialRun::read(&child.wait_with_output().unwrap())
    }

    /// Does something while it is stopped.
    pub fn while_stopped(&self, work: impl FnOnce()) {
        let pid = self.0.lock().unwrap().unwrap();
        stop(pid);
        work();
        signal("CONT", pid);
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Stops a process and waits until none of its threads runs.
fn stop(pid: u32) {
    signal("STOP", pid);
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().all(is_stopped) {
        std::thread::yield_now();
    }
}
