//! `sextant bench` from its start to the record, and its ends by signal.

use std::path::Path;
use std::time::{Duration, Instant};

use lab::peers;
use record::{Results, State};

use super::running::{
    Background, alone, children_of, children_pids_of, command, free_port, sextant, stderr, stdout,
};

fn record(directory: &Path) -> Results {
    let text = std::fs::read_to_string(directory.join("results.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether the self-test, which does without the server, found that this machine cannot measure now. No other
/// failure is the machine's.
pub(super) fn was_unfit(results: &Results) -> bool {
    let State::Failed(reason) = &results.state else { return false };
    let selftest = results.selftest.as_ref().unwrap_or_else(|| panic!("without a self-test: {reason}"));
    let lowest_qps = results.settings.rate_range_qps[0];
    assert!(!selftest.passed || selftest.certified_qps < lowest_qps, "{reason}");
    assert!(results.runs.is_empty(), "{reason}");
    testing::skip("busy machine", reason);
    true
}

/// A search so small that it takes seconds.
const SMALL: [&str; 10] =
    ["--duration", "0.3", "--repetitions", "3", "--max-rate", "1500", "--min-rate", "500", "--width", "50"];

fn small_bench(extra: &[&str]) {
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let out_text = out.to_str().unwrap();
    let output = sextant(&[&["bench", "--out", out_text], &SMALL[..], extra].concat());
    let results = record(&out);
    assert_eq!(results.kind, record::Kind::Bench);
    assert!(results.dut.version.chars().any(|c| c.is_ascii_digit()), "{:?}", results.dut);
    assert!(results.dut.configuration.as_ref().is_some_and(|text| text.contains("2001:db8:64::")));
    for file in ["manifest.json", "report.html", "trials.csv"] {
        assert!(out.join(file).metadata().is_ok_and(|file| file.len() > 10), "{file}");
    }
    if was_unfit(&results) {
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        return;
    }
    let selftest = results.selftest.as_ref().unwrap();
    assert!(selftest.passed && selftest.certified_qps <= 1500);
    assert_eq!(results.state, State::Complete);
    assert_eq!(results.summary.as_ref().unwrap().n, 3);
    let not_kept = |text: &str| {
        let row = results.checklist.iter().find(|row| row.text.contains(text)).unwrap();
        assert_eq!(row.kept, Some(false), "{}: {}", row.text, row.note);
    };
    // Short trials with short pauses, three times.
    ["at least 60 s", "at least 20 times", "to restabilize"].into_iter().for_each(not_kept);
    assert_eq!(results.checklist.len(), 14);
    assert!(results.verdict.is_some_and(|verdict| verdict.contains(&results.dut.name)));
    // Every query of the worst case costs the AuthDNS two.
    let passed =
        results.runs.iter().flat_map(|run| &run.trials).find(|trial| trial.void.is_none() && trial.lost == 0);
    let seen = passed.and_then(|trial| trial.observation.as_ref()).unwrap();
    assert!(seen.auth_queries_per_query.is_some_and(|per_query| (1.9..2.2).contains(&per_query)), "{seen:?}");
    assert!(seen.dut_cpu_us_per_query.is_some_and(|cpu| cpu > 0.1), "{seen:?}");
    // In a trial of its own: whatever the load, the server draws its IDs.
    let observed = results.observed.as_ref().unwrap();
    assert!(observed.kept > 1000 && observed.ids.tests.len() > 3, "{observed:?}");
    let each = observed.queries_per_client_query.unwrap();
    assert!((1.95..2.5).contains(&each), "{each} queries for each of the client's");
    assert!(observed.ids.tests.iter().all(|test| test.p_value > 1e-6), "{:?}", observed.ids.tests);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("The IDs of its queries over time"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("report.html"));
}

#[test]
fn the_embedded_lab_is_measured() {
    let _alone = alone();
    // Through network namespaces, where they can be made.
    small_bench(&[]);
    small_bench(&["--path", "loopback"]);
}

#[test]
fn several_goals_are_searched_at_once() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let arguments = ["bench", "--path", "loopback", "--search", "mlr", "--out", out.to_str().unwrap()];
    let output = sextant(&[&arguments, &SMALL[..]].concat());
    let results = record(&out);
    assert_eq!((results.settings.search.clone(), results.settings.goals.len()), (record::SearchMode::Mlr, 3));
    if was_unfit(&results) {
        return;
    }
    assert_eq!(results.goals.len(), 3);
    for run in &results.runs {
        assert_eq!((run.goals.len(), run.goals[0].lower_qps.unwrap_or(0)), (3, run.qps));
        let lengths: Vec<f64> = run.trials.iter().map(|trial| trial.duration_s).collect();
        assert!(lengths.iter().all(|length| (0.2..0.35).contains(length)), "{lengths:?}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("Goal of 0.01 % loss"));
}

#[test]
fn real_peers_are_measured() {
    let _alone = alone();
    for peer in ["unbound", "bind", "pdns-recursor", "knot-resolver", "coredns", "totd"] {
        match peers::locate(peers::find(peer).unwrap()) {
            Ok(_) => small_bench(&["--peer", peer]),
            Err(missing) => testing::skip(&format!("peer {peer}"), missing),
        }
    }
}

#[test]
fn authoritative_servers_load_the_zone_and_are_measured() {
    let _alone = alone();
    for server in ["sextant", "nsd", "knot", "bind", "yadifa", "pdns"] {
        if let Err(missing) = peers::locate(peers::authoritative::find(server).unwrap()) {
            testing::skip(&format!("peer {server}"), missing);
            continue;
        }
        let base = tempfile::tempdir().unwrap();
        let out = base.path().join("record");
        let fixed = ["--search", "fixed", "--max-rate", "500", "--repetitions", "1", "--duration", "0.3"];
        let zone =
            ["bench", "--authoritative", server, "--names", "10.0.0.0/20", "--out", out.to_str().unwrap()];
        let output = sextant(&[&zone[..], &fixed].concat());
        let results = record(&out);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{server}: {}", stderr(&output));
        let dut = &results.dut;
        assert_eq!((dut.name.as_str(), dut.zone_names), (server, Some(4096)));
        assert!(dut.start_s > Some(0.0) && dut.start_memory_octets > Some(1 << 20), "{dut:?}");
        let trial = results.runs[0].trials.last().unwrap();
        assert_eq!(trial.invalid, 0, "every name has the AAAA record that is expected: {trial:?}");
        let seen = trial.observation.as_ref().unwrap();
        assert!(seen.dut_cpu_pct > Some(0.0) && seen.auth_queries.is_none(), "{server}: {seen:?}");
    }
    let usage = sextant(&["bench", "--authoritative", "nsd", "--aaaa-share", "50", "--names", "10.0.0.0/24"]);
    assert_eq!(usage.status.code(), Some(2), "{}", stderr(&usage));
    assert!(stderr(&usage).contains("--aaaa-share is for DNS64 servers"), "{}", stderr(&usage));
}

#[test]
fn dns64d_is_measured_past_the_stack() {
    let _alone = alone();
    if !super::lab::can() {
        return;
    }
    match sys::bpf::available() {
        Ok(()) => small_bench(&["--peer", "dns64d-xdp"]),
        Err(error) => testing::skip("xdp", error),
    }
}

/// Ends a bench after a while with a signal; returns the record.
fn interrupted(signal: &str) -> (Option<i32>, String, Results, u32) {
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let mut bench = command(&["bench", "--max-rate", "2000", "--out", out.to_str().unwrap()]);
    let child = bench.spawn().unwrap();
    let pid = child.id();
    let started = Instant::now();
    // The server runs and the record has begun.
    while children_of(pid).is_empty() || !out.join("results.json").exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "the bench does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let servers = children_pids_of(pid);
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert!(
        std::process::Command::new("kill")
            .args([&format!("-{signal}"), &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert!(children_of(pid).is_empty());
    (output.status.code(), stderr(&output), record(&out), servers[0])
}

#[test]
fn an_interrupted_bench_keeps_its_record_and_leaves_no_server() {
    let _alone = alone();
    let (code, text, results, _) = interrupted("INT");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("interrupted") && text.contains("what was measured so far is in"), "{text}");
    assert_eq!(results.state, State::Interrupted);
    assert!(results.finished_utc.is_some());
}

#[test]
fn a_killed_bench_leaves_a_whole_record_and_no_server() {
    let _alone = alone();
    let (code, _, results, server) = interrupted("KILL");
    assert_eq!(code, None);
    assert_eq!(results.state, State::Running);
    // The kernel ends the server a moment after its parent. It may stay as a zombie, which has no command
    // line, where nobody collects orphans.
    let runs =
        || std::fs::read(format!("/proc/{server}/cmdline")).is_ok_and(|arguments| !arguments.is_empty());
    let started = Instant::now();
    while runs() {
        assert!(started.elapsed() < Duration::from_secs(5), "server {server} outlives its instrument");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Where it had a lab, that is for the next command to remove.
    if lab::network::check().is_ok() {
        assert!(sextant(&["lab", "down", "--name", &super::lab::name("killed")]).status.success());
    }
}

#[test]
fn a_server_that_dies_leaves_its_last_trial_and_its_log() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let options = ["--search", "fixed", "--max-rate", "200", "--duration", "3", "--out"];
    // The self-test is as long as a trial; the server is killed in the trial after it.
    let child =
        command(&[&["bench", "--json"], &options[..], &[out.to_str().unwrap()]].concat()).spawn().unwrap();
    let pid = child.id();
    let started = Instant::now();
    let tested = || {
        std::fs::read_to_string(out.join("results.json")).is_ok_and(|text| text.contains("\"passed\": true"))
    };
    while !tested() {
        assert!(started.elapsed() < Duration::from_secs(50), "the self-test does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(1000));
    let server = children_pids_of(pid);
    assert_eq!(server.len(), 1);
    assert!(
        std::process::Command::new("kill")
            .args(["-KILL", &server[0].to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ended by itself (signal 9)"), "{text}");
    let results = record(&out);
    assert!(matches!(results.state, State::Failed(_)));
    if results.runs[0].trials.is_empty() {
        return testing::skip(
            "busy machine",
            "the Tester waited for a quiet machine when the server was killed",
        );
    }
    assert_eq!(results.runs[0].trials.len(), 1, "the trial that it did not survive");
    assert!(serde_json::from_slice::<Results>(&output.stdout).is_ok());
    assert!(out.join("logs/dns64d.log").exists());
}

/// A file system of its own, unmounted when dropped; `None`, and a word why, where none can be mounted.
pub(super) struct Mount(tempfile::TempDir);

impl Mount {
    pub(super) fn new(options: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path());
        let mounted = mount.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success());
        if !mounted {
            testing::skip("root", "this user may not mount a file system");
        }
        mounted.then_some(Self(directory))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_and_a_read_only_one_are_named() {
    let _alone = alone();
    for (options, error) in [("size=48k", "No space left"), ("ro", "Read-only")] {
        let Some(mount) = Mount::new(options) else { return };
        let out = mount.path().join("record");
        let output = sextant(&[&["bench", "--out", out.to_str().unwrap()], &SMALL[..]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(&format!("cannot write results to {}", out.display())), "{text}");
        assert!(text.contains(error) && text.lines().count() == 1, "{text}");
        if options != "ro" {
            assert_eq!(record(&out).kind, record::Kind::Bench, "what was written is whole");
        }
    }
}

#[test]
fn a_signal_while_a_server_is_waited_for_ends_the_wait() {
    let _alone = alone();
    let silent = std::net::UdpSocket::bind("[::1]:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    for arguments in
        [["bench", "--dut", &server, "--auth-listen=127.0.0.1:0"], ["trial", "--server", &server, "--rate=9"]]
    {
        let child = command(&arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    }
}

#[test]
fn a_fixed_rate_is_never_quietly_lowered() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("record");
    let options =
        ["--path", "loopback", "--search", "fixed", "--max-rate", "3000000", "--duration", "0.02", "--out"];
    let output = sextant(&[&["bench"], &options[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains("self-test"), "{text}");
    assert!(record(&out).runs.is_empty());
}

#[test]
fn the_reason_of_a_failure_is_printed_once() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    for detail in ["", "-v"] {
        let out = base.path().join(format!("record{detail}"));
        let options = ["--path=loopback", "--search=fixed", "--max-rate=3000000", "--duration=0.02", "--out"];
        let detail: Vec<&str> = Some(detail).into_iter().filter(|word| !word.is_empty()).collect();
        let output = sextant(&[&["bench"], &options[..], &[out.to_str().unwrap()], &detail].concat());
        assert_eq!(output.status.code(), Some(3));
        let State::Failed(reason) = record(&out).state else { panic!("{}", stdout(&output)) };
        let error = stderr(&output);
        assert_eq!(error.matches(&reason).count(), 1, "{error}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let printed = words(&stdout(&output));
        assert!(printed.contains("The measurement failed.") && !printed.contains(&reason), "{printed}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_anything_runs() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let out = file.to_str().unwrap();
    // Neither server is there, and nobody asks for it.
    for command in [["bench", "--dut", "[::1]:9"], ["search", "--server", "[::1]:9"]] {
        let output = sextant(&[&command[..], &["--out", out]].concat());
        assert_eq!(output.status.code(), Some(3));
        let text = stderr(&output);
        assert!(text.contains("cannot write results to") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let _alone = alone();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("deep/record");
    let output = sextant(&["bench", "--auth-listen", &address, "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(&address), "{}", stderr(&output));
    assert!(base.path().read_dir().unwrap().next().is_none(), "nothing was measured, and nothing is left");
}

#[test]
fn a_server_of_ones_own_must_forward_to_the_authdns() {
    let _alone = alone();
    let output = sextant(&["bench", "--dut", ":9", "--auth-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("[::1]:9 does not answer") && text.contains("forward dns64perf.test"), "{text}");
}

#[test]
fn a_server_that_somebody_else_runs_is_measured() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (dut_port, auth_port) = (free_port(), free_port());
    let config = base.path().join("dns64d.toml");
    let text = format!(
        "listen = ['[::1]:{dut_port}']\nupstreams = ['127.0.0.1:{auth_port}']\nprefixes = ['64:ff9b::/96']\n[dns64]\nstrict_well_known = false\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = std::process::Command::new(env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    let (server, _) = Background::start(dns64d, "event=ready");
    let out = base.path().join("record");
    let (dut, auth) = (format!(":{dut_port}"), format!("127.0.0.1:{auth_port}"));
    let options = [
        "bench",
        "--dut",
        &dut,
        "--auth-listen",
        &auth,
        "--prefix",
        "64:ff9b::/96",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = sextant(&[&options[..], &SMALL[..]].concat());
    let results = record(&out);
    assert_eq!(results.dut.name, "external");
    assert!(matches!(results.state, State::Complete | State::Failed(_)), "{}", stderr(&output));
    assert!(Path::new(&format!("/proc/{}", server.pid())).exists(), "it is not ours to stop");
}
