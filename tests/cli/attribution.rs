//! What a trial that does not pass says of the cause.

use std::process::{Child, Command};

use serde_json::Value;

use super::running::{Background, alone, auth, command, sextant, stderr};

/// Programs that use a processor, ended when dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn new(cpu: usize, number: usize) -> Self {
        let spin = || {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
            net::process::die_with_parent(&mut command).spawn().unwrap()
        };
        Self((0..number).map(|_| spin()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

fn trial(arguments: &[&str]) -> Value {
    let output = sextant(&[&["trial", "--duration", "1", "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

#[test]
fn a_tester_without_its_processor_is_the_cause() {
    let _alone = alone();
    let (_auth, server) = auth();
    let cpu = *net::cpu::available().last().unwrap();
    let _spinners = Spinners::new(cpu, 8);
    let told = trial(&["--server", &server, "--rate", "2000", "--cpus", &cpu.to_string()]);
    assert_eq!(told["outcome"], "void", "{told}");
    assert_eq!(told["cause"]["cause"], "Tester CPU", "{told}");
    assert!(told["cause"]["evidence"].as_str().unwrap().contains("ms late"));
}

#[test]
fn a_server_that_answers_late_queues() {
    let _alone = alone();
    let arguments =
        ["auth", "--listen", "[::1]:0", "--aaaa-share", "100", "--aaaa-prefix", "2001:db8:64::/96"];
    let late = ["--fault", "delay=600ms,share=20%"];
    let (_auth, line) = Background::start(command(&[&arguments[..], &late].concat()), "");
    let at = line.find("[::1]:").expect("the ready line names the address");
    let server: String =
        line[at..].chars().take_while(|c| !c.is_whitespace() && *c != ',' && *c != ';').collect();
    let told = trial(&["--server", &server, "--rate", "500", "--timeout", "0.3"]);
    assert_ne!(told["outcome"], "pass", "{told}");
    if told["void"].is_string() || told["observation"]["steal_pct"].as_f64().unwrap() >= 3.0 {
        println!("SKIPPED: the machine was too busy to tell: {}", told["cause"]);
        return;
    }
    assert_eq!(told["cause"]["cause"], "DUT queueing", "{told}");
    assert!(told["cause"]["evidence"].as_str().unwrap().contains("after the timeout"));
}

#[test]
fn a_trial_that_passes_has_no_cause() {
    let _alone = alone();
    let (_auth, server) = auth();
    let told = trial(&["--server", &server, "--rate", "200"]);
    assert_eq!(told["outcome"] == "pass", told["cause"].is_null(), "{told}");
}
