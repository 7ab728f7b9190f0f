//! What a trial that does not pass says of the cause.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::can;
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

#[test]
fn a_server_at_its_limit_is_the_cause() {
    if !can() {
        return;
    }
    let _alone = alone();
    // More than any processor answers names that are not cached.
    let told = trial(&["--peer", "dns64d", "--path", "lab", "--rate", "400000", "--dut-cpus", "0"]);
    assert_ne!(told["outcome"], "pass", "{told}");
    let cause = told["cause"]["cause"].as_str().unwrap();
    assert!(cause == "DUT CPU" || !told["void"].is_null(), "{told}");
}

#[test]
fn own_sockets_without_room_are_the_cause() {
    let _alone = alone();
    let reflect = ["echo", "--listen", "[::1]:0", "--threads", "1", "--cpus", "0"];
    let (_reflector, line) = Background::start(command(&reflect), "ready: ");
    let server = line.split("ready: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let told = trial(&[
        "--server",
        &server,
        "--validity",
        "response",
        "--io",
        "udp",
        "--ports",
        "1",
        "--receive-buffer",
        "2304",
        "--rate",
        "50000",
        "--load",
        "burst:1000",
    ]);
    assert_ne!(told["outcome"], "pass", "{told}");
    assert_eq!(told["cause"]["cause"], "Tester receive", "{told}");
}

#[test]
fn answers_that_get_lost_on_the_way_are_the_paths() {
    if !can() {
        return;
    }
    let _alone = alone();
    let arguments = [
        "trial",
        "--peer",
        "dns64d",
        "--path",
        "lab",
        "--io",
        "udp",
        "--rate",
        "400",
        "--duration",
        "6",
        "--json",
    ];
    let asking = command(&arguments).spawn().unwrap();
    let namespace = format!("sextant-{}-dut", asking.id());
    let packets_out = || {
        let output =
            Command::new("ip").args(["-n", &namespace, "-s", "-j", "link", "show", "tester0"]).output();
        let told: Option<Value> = serde_json::from_slice(&output.unwrap().stdout).ok();
        told.and_then(|told| told[0]["stats64"]["tx"]["packets"].as_u64()).unwrap_or(0)
    };
    let begun = Instant::now();
    // The trial is under way.
    while packets_out() < 400 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the trial does not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    let nobody = ["neighbour", "replace", "2001:2:0:12::1", "lladdr", "02:00:00:00:00:99", "dev", "tester0"];
    let replaced = Command::new("ip").args(["-n", &namespace]).args(nobody).status().unwrap();
    assert!(replaced.success());
    let output = asking.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["answered"].as_u64() >= Some(300) && told["lost"].as_u64() > Some(0), "{told}");
    assert_eq!(told["cause"]["cause"], "path", "{told}");
}
