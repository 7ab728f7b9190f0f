//! `sextant trial` and `selftest` against the AuthDNS.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::running::{Background, alone, auth, command, sextant, stderr};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

fn number(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap_or_else(|| panic!("{name} in {trial}"))
}

/// What holds for every trial, however busy the machine is.
fn check(trial: &Value, code: Option<i32>) {
    assert_eq!(number(trial, "sent"), number(trial, "answered") + number(trial, "lost"));
    assert_eq!(
        number(trial, "answered"),
        number(trial, "valid") + number(trial, "invalid") + number(trial, "late")
    );
    let losses: u64 =
        trial["losses"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(losses, number(trial, "scheduled") - number(trial, "valid"));
    let expected = match trial["outcome"].as_str().unwrap() {
        "pass" => 0,
        "fail" => 1,
        "void" => 3,
        other => panic!("outcome {other}"),
    };
    assert_eq!(code, Some(expected), "{trial}");
    assert_eq!(trial["void"].is_null(), expected != 3);
}

#[test]
fn a_trial_prints_the_fields_that_other_programs_read() {
    let _alone = alone();
    let (_auth, server) = auth();
    let output = sextant(&["trial", "--server", &server, "--rate", "3000", "--duration", "1", "--json"]);
    let trial = json(&output);
    check(&trial, output.status.code());
    assert_eq!((number(&trial, "rate_qps"), number(&trial, "sent")), (3000, 3000));
    assert_eq!((number(&trial, "invalid"), number(&trial, "unexpected")), (0, 0));
    assert_eq!(number(&trial, "valid_compat"), number(&trial, "valid"));
    assert_eq!(trial["duration_s"], 1.0);
    for path in [
        "/latency_ns/p50",
        "/latency_ns/p90",
        "/latency_ns/p99",
        "/latency_ns/p999",
        "/latency_ns/max",
        "/latency_ns/mean",
        "/schedule_error_ns/p50",
        "/schedule_error_ns/p99",
        "/schedule_error_ns/max",
        "/windows/ms1/worst_pct",
        "/windows/ms1/cv_pct",
        "/windows/ms10/worst_pct",
        "/windows/ms100/cv_pct",
    ] {
        assert!(trial.pointer(path).is_some_and(Value::is_number), "{path} in {trial}");
    }
    assert!(trial.pointer("/latency_ns/p50").unwrap().as_u64() > Some(0));
}

#[test]
fn a_wrong_address_is_invalid_and_the_text_says_which_came() {
    let _alone = alone();
    let (_auth, server) = auth();
    let arguments =
        ["trial", "--server", &server, "--rate", "500", "--duration", "0.4", "--prefix", "64:ff9b::/96"];
    let output = sextant(&[&arguments[..], &["--json"]].concat());
    let trial = json(&output);
    check(&trial, output.status.code());
    assert_eq!(number(&trial, "valid"), 0);
    assert_eq!(number(&trial, "valid_compat"), number(&trial, "invalid"));
    let text = String::from_utf8(sextant(&arguments).stdout).unwrap();
    assert!(text.contains("2001:db8:64::") && text.contains("64:ff9b::"), "{text}");
}

#[test]
fn several_threads_over_ipv4_ask_each_name_once() {
    let _alone = alone();
    let arguments = [
        "auth",
        "--listen",
        "127.0.0.1:0",
        "--aaaa-share",
        "100",
        "--aaaa-prefix",
        "2001:db8:64::/96",
        "--json",
    ];
    let (auth, line) = Background::start(command(&arguments), "");
    let at = line.find("127.0.0.1:").unwrap();
    let server: String = line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    let output = sextant(&[
        "trial",
        "--server",
        &server,
        "--rate",
        "2000",
        "--duration",
        "0.5",
        "--threads",
        "2",
        "--ports",
        "6",
        "--edns",
        "1232",
        "--json",
    ]);
    let trial = json(&output);
    check(&trial, output.status.code());
    assert_eq!(number(&trial, "sent"), 1000);
    auth.signal("INT");
    let (code, out, _) = auth.end();
    let counters: Value = serde_json::from_str(&out).unwrap();
    // One more than the trial's: the question whether the server is there at all.
    assert_eq!(counters["udp"]["queries_aaaa"], 1001, "{counters}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let _alone = alone();
    let output = sextant(&["trial", "--server", "[::1]:9", "--rate", "10", "--duration", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing listens at [::1]:9"), "{}", stderr(&output));
    let silent = std::net::UdpSocket::bind("[::1]:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let output = sextant(&["search", "--server", &server]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no answer from"), "{}", stderr(&output));
}

#[test]
fn a_trial_that_cannot_be_is_refused() {
    let _alone = alone();
    let (_auth, server) = auth();
    for (options, reason) in [
        ("--rate 1000 --duration 1 --names 10.0.0.0/24", "256 names but the trial asks 1000"),
        ("--rate 100000000 --duration 86400", "16777216 names but the trial asks 8640000000000"),
        ("--rate 1 --duration 0.5", "no query is due"),
        ("--rate 1 --duration 86400 --threads 64", "MiB is allowed"),
        ("--rate 100000000 --duration 40 --timeout 86400 --names 0.0.0.0/0", "MiB is allowed"),
    ] {
        let options = options.split(' ').collect::<Vec<_>>();
        let output = sextant(&[&["trial", "--server", &server], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

/// Ctrl-C for a child that has not been waited for.
fn interrupt(child: &std::process::Child) {
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_long_timeout_at_a_high_rate_and_many_ports_are_no_trouble() {
    let _alone = alone();
    let (_auth, server) = auth();
    for options in ["--rate 300000 --duration 0.01 --timeout 86400", "--rate 1000 --duration 0.2 --ports 900"]
    {
        let options = options.split(' ').collect::<Vec<_>>();
        let arguments = [&["trial", "--server", &server, "--json"], &options[..]].concat();
        let mut child = command(&arguments).spawn().unwrap();
        // With so long a timeout a lost answer is waited for all day.
        let started = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > Duration::from_secs(5) {
                interrupt(&child);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let output = child.wait_with_output().unwrap();
        let trial = json(&output);
        check(&trial, output.status.code());
    }
}

#[test]
fn an_interrupted_trial_still_says_what_it_saw() {
    let _alone = alone();
    let (_auth, server) = auth();
    let arguments = ["trial", "--server", &server, "--rate", "1000", "--duration", "600", "--json"];
    let mut child = command(&arguments).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let output = child.wait_with_output().unwrap();
    let trial = json(&output);
    assert_eq!(trial["void"], "interrupted");
    assert!((100..5000).contains(&number(&trial, "sent")), "{trial}");
    assert_eq!(number(&trial, "scheduled"), 600_000);
}

#[test]
fn a_selftest_says_what_it_certifies() {
    let _alone = alone();
    let output = sextant(&["selftest", "--rate", "500", "--duration", "0.3", "--json"]);
    let selftest = json(&output);
    assert_eq!(number(&selftest, "required_qps"), 1100);
    assert_eq!(selftest["timeout_s"], 0.25);
    let passed = selftest["passed"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if passed { 0 } else { 3 }));
    assert_eq!(number(&selftest, "certified_qps"), if passed { 500 } else { 0 });
    let trials = selftest["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| number(trial, "invalid") == 0 && number(trial, "rate_qps") == 1100));
}

#[test]
fn names_with_a_aaaa_of_their_own_do_not_fail_the_selftest() {
    let _alone = alone();
    let output = sextant(&["selftest", "--rate", "200", "--duration", "0.3", "--aaaa-share", "50", "--json"]);
    let selftest = json(&output);
    let trials = selftest["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| number(trial, "invalid") == 0), "{selftest}");
}

#[test]
fn a_closed_or_full_standard_output_is_no_panic() {
    let _alone = alone();
    let (_auth, server) = auth();
    let arguments = ["trial", "--server", &server, "--rate", "100", "--duration", "0.2"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(&arguments).stdout(full).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains("cannot write to standard output") && text.lines().count() == 1, "{text}");
    let mut child = command(&arguments).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 3)) && output.stderr.is_empty(),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_kept_trial_is_not_overwritten_and_knows_its_machine() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("kept");
    let arguments =
        ["trial", "--server", &server, "--rate", "100", "--duration", "0.2", "--out", out.to_str().unwrap()];
    sextant(&arguments);
    let kept = std::fs::read(out.join("trial.json")).unwrap();
    assert!(std::fs::metadata(out.join("manifest.json")).unwrap().len() > 100);
    let again = sextant(&arguments);
    assert_eq!(again.status.code(), Some(3));
    assert!(stderr(&again).contains("holds results already"), "{}", stderr(&again));
    assert_eq!(std::fs::read(out.join("trial.json")).unwrap(), kept);
}

#[test]
fn a_rate_beyond_the_machine_is_given_up() {
    let _alone = alone();
    let (_auth, server) = auth();
    let options = ["--rate", "100000000", "--duration", "0.1", "--json"];
    let output = sextant(&[&["trial", "--server", &server], &options[..]].concat());
    let trial = json(&output);
    check(&trial, output.status.code());
    assert!(trial["void"].as_str().unwrap().contains("cannot send so fast"), "{trial}");
}

#[test]
fn a_server_is_started_for_one_trial_and_measured_in_experiments_or_under_attack() {
    let _alone = alone();
    let options = ["trial", "--peer", "dns64d", "--duration", "1", "--json"];
    let output = sextant(&[&options[..], &["--load", "experiments:1x64"]].concat());
    let trial = json(&output);
    check(&trial, output.status.code());
    assert!(trial["experiments"]["count"].as_u64() > Some(0), "{trial}");
    let seen = |trial: &Value, name: &str| trial["observation"][name].as_f64();
    assert!(seen(&trial, "dut_cpu_us_per_query") > Some(0.0), "its processor time is read: {trial}");

    let attack = ["--io", "udp", "--rate", "300", "--attack", "900"];
    let output = sextant(&[&options[..], &attack].concat());
    let trial = json(&output);
    check(&trial, output.status.code());
    let beside = &trial["beside"];
    assert_eq!((number(&trial, "sent"), number(beside, "rate_qps")), (300, 900), "{trial}");
    let attacked = (number(beside, "sent"), number(beside, "answered"));
    assert!(attacked.0 > 900 && attacked.1 <= attacked.0, "it lasts longer than the trial: {trial}");
    assert_eq!(seen(&trial, "dut_cpu_us_per_query"), None, "{trial}");
    let looped = sextant(&["trial", "--looped", "--rate", "500", "--duration", "0.3", "--json"]);
    check(&json(&looped), looped.status.code());
    assert_eq!(json(&looped)["observation"]["dut_cpu_pct"], Value::Null, "there is no server");
}

#[test]
fn what_belongs_to_a_started_server_is_refused_without_one() {
    let _alone = alone();
    for (options, reason) in [
        (
            "--server [::1]:9 --path loopback",
            "--path, --auth-io, --auth-threads and --auth-cpus are for --peer and --looped",
        ),
        ("--server [::1]:9 --peer dns64d", "cannot be used with"),
        ("--peer nobody", "nobody"),
        ("--looped --io kernel --attack 5", "use --io udp"),
        ("--looped --auth-cpus 8000", "--auth-cpus: processor 8000 may not be used"),
        ("--looped --auth-cpus 0 --auth-threads 0", "--auth-cpus is for threads of the AuthDNS"),
        ("--looped --auth-cpus 0 --auth-io kernel", "answers on the processors that receive the queries"),
        ("--looped --auth-threads 2 --auth-io kernel", "leave out --auth-threads and --auth-cpus"),
    ] {
        let options = options.split(' ').collect::<Vec<_>>();
        let output = sextant(&[&["trial", "--rate", "10", "--duration", "0.5"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options:?}: {}", stderr(&output));
    }
}

/// The processors of the AuthDNS's threads in a process, as the kernel lists them.
fn auth_processors(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let of_auth = statuses.filter(|status| status.starts_with("Name:\tauth-udp-"));
    let allowed = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap_or_default().trim().to_owned()
    };
    of_auth.map(allowed).collect()
}

#[test]
fn the_threads_of_the_authdns_are_where_they_are_wanted() {
    let _alone = alone();
    let cpu = sys::cpu::available()[0].to_string();
    let place = ["--looped", "--path", "loopback", "--auth-cpus", &cpu, "--auth-threads", "2"];
    let mut trial = command(&[&["trial", "--rate", "100", "--duration", "1"], &place[..]].concat());
    let mut trial = trial.stdout(std::process::Stdio::null()).spawn().unwrap();
    let started = std::time::Instant::now();
    while auth_processors(trial.id()) != [cpu.as_str(), &cpu] {
        assert!(started.elapsed().as_secs() < 20, "{:?}", auth_processors(trial.id()));
        assert!(trial.try_wait().unwrap().is_none(), "the trial ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(trial.wait().unwrap().code(), Some(0 | 3)));
}
