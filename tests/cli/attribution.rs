//! What a trial that does not pass says of the cause.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::can;
use super::running::{Background, alone, auth, auth_with, command, sextant, stderr};

/// Programs that use a processor, ended when dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn new(cpu: usize, number: usize) -> Self {
        let spin = || {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
            sys::process::die_with_parent(&mut command).spawn().unwrap()
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

/// Whether others took the processors, as the trial's own counters say: then it says nothing of its subject.
fn was_disturbed(told: &Value) -> bool {
    let seen = &told["observation"];
    let others = seen["foreign_cpu_pct"].as_f64() >= Some(10.0) || seen["steal_pct"].as_f64() >= Some(3.0);
    let was_disturbed = told["void"].is_string() || others;
    if was_disturbed {
        testing::skip("busy machine", &told["cause"]);
    }
    was_disturbed
}

#[test]
fn a_tester_without_its_processor_is_the_cause() {
    let _alone = alone();
    let (_auth, server) = auth();
    let cpu = *sys::cpu::available().last().unwrap();
    let _spinners = Spinners::new(cpu, 8);
    let told = trial(&["--server", &server, "--rate", "2000", "--cpus", &cpu.to_string()]);
    assert_eq!(told["outcome"], "void", "{told}");
    assert_eq!(told["cause"]["cause"], "Tester CPU", "{told}");
    // Without its processor it is late, or uneven where the pauses are shorter.
    let evidence = told["cause"]["evidence"].as_str().unwrap();
    assert!(evidence.contains("ms late") || evidence.contains("sent unevenly"), "{told}");
}

#[test]
fn a_server_that_answers_late_queues() {
    let _alone = alone();
    let (_auth, server) = auth_with(&["--fault", "delay=600ms,share=20%"]);
    let told = trial(&["--server", &server, "--rate", "500", "--timeout", "0.3"]);
    assert_ne!(told["outcome"], "pass", "{told}");
    if was_disturbed(&told) {
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
        "5000",
        "--load",
        "burst:200",
    ]);
    assert_ne!(told["outcome"], "pass", "{told}");
    assert_eq!(told["cause"]["cause"], "Tester receive", "{told}");
}

/// A trial in a lab of its own, with dns64d and sockets, that something befalls once it is under way.
struct Befallen {
    asking: Child,
    namespace: String,
}

impl Befallen {
    fn new(options: &[&str]) -> Self {
        let lab = ["trial", "--peer", "dns64d", "--path", "lab", "--io", "udp", "--auth-io", "udp", "--json"];
        let asking = command(&[&lab[..], options].concat()).spawn().unwrap();
        let trial = Self { namespace: format!("sextant-{}-", asking.id()), asking };
        let begun = Instant::now();
        while trial.packets_out() < 400 {
            assert!(begun.elapsed() < Duration::from_secs(30), "the trial does not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
        trial
    }

    fn packets_out(&self) -> u64 {
        let namespace = format!("{}dut", self.namespace);
        let link = ["-n", &namespace, "-s", "-j", "link", "show", "tester0"];
        let output = Command::new("ip").args(link).output().unwrap();
        let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        told.and_then(|told| told[0]["stats64"]["tx"]["packets"].as_u64()).unwrap_or(0)
    }

    /// Runs `ip` in the namespace of a role.
    fn ip(&self, role: &str, arguments: &[&str]) {
        let namespace = format!("{}{role}", self.namespace);
        assert!(Command::new("ip").args(["-n", &namespace]).args(arguments).status().unwrap().success());
    }

    fn end(self) -> Value {
        let output = self.asking.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
    }
}

#[test]
fn answers_that_get_lost_on_the_way_are_the_paths() {
    if !can() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let _alone = alone();
    let trial = Befallen::new(&["--rate", "400", "--duration", "6"]);
    let nobody = ["neighbour", "replace", "2001:2:0:12::1", "lladdr", "02:00:00:00:00:99", "dev", "tester0"];
    trial.ip("dut", &nobody);
    let told = trial.end();
    assert!(told["answered"].as_u64() >= Some(300) && told["lost"].as_u64() > Some(0), "{told}");
    assert_eq!(told["cause"]["cause"], "path", "{told}");
}

#[test]
fn an_authdns_that_does_not_answer_in_time_is_the_cause() {
    if !can() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let _alone = alone();
    let trial = Befallen::new(&["--rate", "400", "--duration", "6"]);
    trial.ip("auth", &["link", "set", "dut0", "down"]);
    let told = trial.end();
    assert_eq!(told["outcome"], "void", "{told}");
    assert_eq!(told["cause"]["cause"], "AuthDNS", "{told}");
    let seen = &told["observation"];
    assert!(seen["auth_probes_late"].as_u64() >= Some(2), "{told}");
    assert!(seen["auth_probes"].as_u64() > seen["auth_probes_late"].as_u64(), "{told}");
}

/// The length of the kernel's backlog, put back when dropped.
struct Backlog(String);

impl Backlog {
    const FILE: &str = "/proc/sys/net/core/netdev_max_backlog";

    fn short() -> Self {
        let before = std::fs::read_to_string(Self::FILE).unwrap();
        std::fs::write(Self::FILE, "8").unwrap();
        Self(before)
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::FILE, &self.0);
    }
}

#[test]
fn a_backlog_without_room_is_the_kernels() {
    let cpus = sys::cpu::available();
    if !can() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let [tester, .., other] = cpus[..] else {
        testing::skip("two processors", "one processor queues nothing for another");
        return;
    };
    let _alone = alone();
    let tester = tester.to_string();
    let bursts = ["--rate", "3000", "--load", "burst:100", "--duration", "6", "--cpus", &tester];
    let trial = Befallen::new(&bursts);
    // Queries that come in on one processor are handed to another, which has a queue for them.
    let mask = 1u64 << other;
    let steer = format!("echo {mask:x} | tee /sys/class/net/tester0/queues/rx-*/rps_cpus");
    let namespace = format!("{}dut", trial.namespace);
    let steered = Command::new("ip").args(["netns", "exec", &namespace, "sh", "-c", &steer]).status();
    assert!(steered.unwrap().success());
    let told = {
        let _short = Backlog::short();
        trial.end()
    };
    assert_ne!(told["outcome"], "pass", "{told}");
    assert!(told["observation"]["softnet_drops"].as_u64() > Some(0), "{told}");
    assert_eq!(told["cause"]["cause"], "NIC or kernel of this host", "{told}");
}

/// A reflector on the first processor, and its address.
fn reflector(options: &[&str]) -> (Background, String) {
    let cpu = sys::cpu::available()[0].to_string();
    let reflect = ["echo", "--listen", "[::1]:0", "--cpus", &cpu];
    let (reflector, line) = Background::start(command(&[&reflect[..], options].concat()), "ready: ");
    let server = line.split("ready: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    (reflector, server)
}

/// A trial of a reflector whose process is known, from the last processor.
fn reflected(reflector: &(Background, String), options: &[&str]) -> Value {
    let (pid, cpu) = (reflector.0.pid().to_string(), sys::cpu::available().last().unwrap().to_string());
    let fixed =
        ["--server", &reflector.1, "--pid", &pid, "--cpus", &cpu, "--validity", "response", "--io", "udp"];
    trial(&[&fixed[..], options].concat())
}

#[test]
fn one_source_port_leaves_the_servers_other_threads_idle() {
    let _alone = alone();
    // Each thread answers 5,000 queries in a second.
    let reflector = reflector(&["--threads", "2", "--work", "200"]);
    let told = reflected(&reflector, &["--ports", "1", "--rate", "9000", "--timeout", "0.6"]);
    assert_ne!(told["outcome"], "pass", "{told}");
    let hottest_pct = told["observation"]["dut_hottest_thread_pct"].as_f64().unwrap();
    // Whoever else takes the reflector's processor leaves its thread less of it.
    if hottest_pct < 90.0 && was_disturbed(&told) {
        return;
    }
    assert_eq!(told["cause"]["cause"], "one thread of the DUT (RSS, port spread)", "{told}");
    assert!(told["cause"]["evidence"].as_str().unwrap().contains("2 sockets share its port"));
}

#[test]
fn a_server_whose_socket_has_no_room_drops_while_it_is_idle() {
    let _alone = alone();
    let reflector = reflector(&["--receive-buffer", "2304"]);
    let told = reflected(&reflector, &["--rate", "2000", "--load", "burst:400"]);
    assert_ne!(told["outcome"], "pass", "{told}");
    assert_eq!(told["cause"]["cause"], "DUT socket buffer and pauses", "{told}");
}

/// A server that keeps some answers for itself, and counts nothing.
fn silent(spinners: usize) -> Value {
    let (server, address) = auth_with(&["--fault", "loss=20%"]);
    let _spinners = Spinners::new(sys::cpu::available()[0], spinners);
    trial(&["--server", &address, "--pid", &server.pid().to_string(), "--rate", "500"])
}

/// Its processor time is its own, not that of other programs, without a word of the user's.
#[test]
fn a_server_that_somebody_else_started_is_found_by_its_socket() {
    let _alone = alone();
    let (first, server) = reflector(&["--work", "100"]);
    let told = trial(&["--server", &server, "--validity", "response", "--io", "udp", "--rate", "2000"]);
    let seen = &told["observation"];
    // 2,000 queries of 100 us each.
    assert!(seen["dut_cpu_pct"].as_f64().is_some_and(|pct| pct > 10.0), "{told}");
    assert!(seen["dut_memory_octets"].as_u64() > Some(0), "{told}");
    drop(first);
}

#[test]
fn other_programs_are_the_cause_where_they_run_and_nothing_else_shows() {
    let _alone = alone();
    let told = silent(2);
    assert_eq!(told["outcome"], "void", "{told}");
    assert_eq!(told["cause"]["cause"], "other load on this machine", "{told}");
}

#[test]
fn losses_that_no_counter_shows_are_nobodys() {
    let _alone = alone();
    let told = silent(0);
    assert_ne!(told["outcome"], "pass", "{told}");
    if was_disturbed(&told) {
        return;
    }
    assert_eq!(told["cause"]["cause"], "unattributed", "{told}");
}
