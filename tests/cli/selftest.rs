//! `sextant selftest`: the lab it sets up, the certificate it keeps, and the benches that rely on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use campaign::certificate::Certificate;
use record::{LoadModel, Results, SelfTest};

use crate::bench::was_unfit;
use crate::lab::{can, name};
use crate::running::{alone, auth, command, sextant, stderr, stdout};

/// The namespaces of the lab of a process.
fn namespaces_of(pid: u32) -> usize {
    let prefix = format!("sextant-{pid}-");
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// The files of a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A small bench over the loopback device, and what it says of its self-test.
fn bench(out: &Path, certificates: &Path, extra: &[&str]) -> (SelfTest, String) {
    let options = ["--duration", "0.3", "--repetitions", "1", "--max-rate", "1000", "--min-rate", "500"];
    let place = ["--out", out.to_str().unwrap(), "--certificates", certificates.to_str().unwrap()];
    let output = sextant(&[&["bench", "-v"], &options[..], &place, extra].concat());
    let text = fs::read_to_string(out.join("results.json")).unwrap();
    let results: Results = serde_json::from_str(&text).unwrap();
    let selftest = results.selftest.expect("it has a self-test");
    // With all figures, the terminal says what the record says.
    let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    if selftest.certificate.is_some() {
        assert!(
            said.contains("is certified to 1,500 q/s on this machine, this path (loopback), this day"),
            "{said}"
        );
    }
    (selftest, stderr(&output))
}

/// A search at `server` by connections; the self-test in its record, if a certificate holds.
fn searched(server: &str, kept: &str, transport: &[&str], more: &[&str]) -> Option<SelfTest> {
    let place = ["--certificates", kept, "--server", server, "--json"];
    let options =
        ["search", "--search", "fixed", "--max-rate", "100", "--repetitions", "1", "--duration", "0.6"];
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("search");
    let out = ["--out", out.to_str().unwrap()];
    let output = sextant(&[&options[..], &out, &place, transport, more].concat());
    let results: Results =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    results.selftest
}

#[test]
fn a_certificate_names_its_transport_and_holds_for_searches_that_ask_so() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, server) = auth();
    for (transport, words) in [
        (&["--transport", "tcp"][..], "16 connections over tcp, pipelined"),
        (&["--transport", "dot", "--connections", "4"], "4 connections over dot, pipelined"),
        (&["--transport", "doh"], "16 connections over doh, pipelined"),
        (&["--transport", "doq"], "16 connections over doq, pipelined"),
        (&["--transport", "doh3"], "16 connections over doh3, pipelined"),
    ] {
        let kept = base.path().join(transport[1]);
        let place = ["--certificates", kept.to_str().unwrap()];
        let options = ["selftest", "--rate", "500", "--duration", "0.6", "--path", "loopback"];
        let output = sextant(&[&options[..], transport, &place].concat());
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        let [file] = &files(&kept)[..] else { panic!("one certificate") };
        let certificate: Certificate = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let conditions = &certificate.conditions;
        assert_eq!((conditions.io.as_str(), certificate.required_qps), (transport[1], 1100));
        assert!(conditions.measurer.ends_with(words), "{}", conditions.measurer);
        let seen = certificate.trials.last().unwrap().connections.as_ref().unwrap();
        assert_eq!(seen.transport.protocol, transport[1]);
    }

    let (kept, tcp) = (base.path().join("elsewhere"), ["--transport", "tcp"]);
    let kept = kept.to_str().unwrap();
    let options =
        ["selftest", "--rate", "500", "--duration", "0.6", "--server", &server, "--certificates", kept];
    let output = sextant(&[&options[..], &tcp].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let held = searched(&server, kept, &tcp, &[]).expect("the certificate holds");
    assert_eq!((held.certified_qps, held.certificate.unwrap().path.as_str()), (500, "server"));
    for other in [&["--connections", "3"][..], &["--queries-per-connection", "5"]] {
        assert!(searched(&server, kept, &tcp, other).is_none(), "it is for other connections: {other:?}");
    }
    assert!(searched(&server, kept, &[], &[]).is_none(), "it is not for UDP");
}

#[test]
fn options_of_a_selftest_that_do_not_go_together_are_told() {
    for (options, reason) in [
        ("--transport dot --tls-name x", "--tls-name is for --server"),
        ("--transport tcp --auth-threads 2", "the AuthDNS has one thread for TCP"),
        ("--transport dot --auth-threads 0", "connections need threads of the AuthDNS"),
        ("--transport dot --auth-io xdp", "--auth-io is for UDP"),
        ("--connections 3", "--connections is for connections"),
    ] {
        let words = ["selftest", "--rate", "500", "--duration", "0.1"].into_iter().chain(options.split(' '));
        let output = sextant(&words.collect::<Vec<_>>());
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{said}");
    }
}

#[test]
fn a_certificate_is_kept_shown_and_relied_on_until_somebody_changes_it() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let kept = base.path().join("certificates");
    let place = ["--certificates", kept.to_str().unwrap()];
    let options = ["selftest", "--rate", "1500", "--duration", "0.6", "--path", "loopback"];
    let output = sextant(&[&options[..], &place].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let files = files(&kept);
    let [file] = files.as_slice() else { panic!("one file, and nothing half-written: {files:?}") };
    assert!(stdout(&output).contains(&format!("certificate: {}", file.display())), "{}", stdout(&output));

    let certificate: Certificate = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!((certificate.certified_qps, certificate.required_qps), (1500, 3300));
    assert_eq!((certificate.trial_s, certificate.timeout_s), (0.6, 0.25));
    let deciding = certificate.trials.last().unwrap();
    assert_eq!((deciding.scheduled, deciding.valid), (1980, 1980));
    let raw = fs::read_to_string("/etc/machine-id").unwrap_or_else(|_| "absent".into());
    assert!(
        !fs::read_to_string(file).unwrap().contains(raw.trim()),
        "the machine's identity is confidential"
    );

    let list = sextant(&[&["selftest", "--list"], &place[..]].concat());
    assert!(stdout(&list).contains("up to       1,500 q/s  loopback"), "{}", stdout(&list));
    let shown = stdout(&sextant(&[&["selftest", "--show"], &place[..]].concat()));
    assert!(shown.contains("at 3,300 q/s for 0.6 s every answer was valid"), "{shown}");
    let unknown = sextant(&[&["selftest", "--show", "x"], &place[..]].concat());
    assert_eq!(unknown.status.code(), Some(2));

    let loopback = ["--path", "loopback"];
    let (selftest, _) = bench(&base.path().join("certified"), &kept, &loopback);
    let used = selftest.certificate.expect("the certificate holds");
    assert_eq!((Path::new(&used.file), selftest.certified_qps), (file.as_path(), 1500));
    // It is confirmed at what this bench needs.
    assert!(selftest.passed && selftest.trials.iter().all(|trial| trial.rate_qps == 2200));
    let (whole, _) = bench(&base.path().join("whole"), &kept, &["--path", "loopback", "--full-selftest"]);
    assert!(whole.certificate.is_none() && whole.uncertified.is_empty());
    let (other, _) = bench(&base.path().join("other"), &kept, &["--path", "loopback", "--ports", "3"]);
    assert!(
        other.certificate.is_none() && other.uncertified.contains("3 source ports"),
        "{}",
        other.uncertified
    );

    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("\"certified_qps\": 1500", "\"certified_qps\": 9500")).unwrap();
    let (changed, text) = bench(&base.path().join("changed"), &kept, &loopback);
    assert!(changed.certificate.is_none() && changed.uncertified.contains("none is kept"));
    assert!(text.contains("ignored: it was changed after it was written"), "{text}");
}

#[test]
fn a_search_relies_on_a_certificate_for_its_device() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (kept, out) = (base.path().join("certificates"), base.path().join("record"));
    let (_auth, server) = auth();
    let place = ["--server", &server, "--certificates", kept.to_str().unwrap()];
    let made = sextant(&[&["selftest", "--rate", "1000", "--duration", "0.3"], &place[..]].concat());
    assert_eq!(made.status.code(), Some(0), "{}{}", stdout(&made), stderr(&made));
    let options =
        ["--search", "fixed", "--max-rate", "1000", "--duration", "0.3", "--repetitions", "1", "--json"];
    let out = ["--out", out.to_str().unwrap()];
    let output = sextant(&[&["search"], &place[..], &options, &out].concat());
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    let selftest = results.selftest.expect("the certificate holds");
    assert_eq!((selftest.certified_qps, selftest.trials.len()), (1000, 0));
    assert_eq!(selftest.certificate.unwrap().path, "server");
    let faster = base.path().join("faster");
    let wide = ["--max-rate", "2000", "--out", faster.to_str().unwrap()];
    let output = sextant(&[&["search"], &place[..], &options[..2], &options[4..], &wide].concat());
    let results: Results = serde_json::from_slice(&output.stdout).unwrap();
    assert!(results.selftest.is_none(), "it is for lower rates");
}

#[test]
fn st_a_lab_is_made_for_the_selftest_and_goes_with_it() {
    if !can() {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let place = base.path().to_str().unwrap();
    let options = ["selftest", "--rate", "1000", "--duration", "0.6", "--certificates", place];
    let child = command(&options).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("over a lab of network namespaces, Measurer by"), "{}", stdout(&output));
    assert_eq!(namespaces_of(pid), 0);
    let listed = stdout(&sextant(&["selftest", "--list", "--json", "--certificates", place]));
    let listed: Vec<Certificate> = serde_json::from_str(&listed).unwrap();
    let conditions = &listed[0].conditions;
    assert_eq!(conditions.path, "lab");
    // The devices of both halves.
    assert!(
        conditions.link.starts_with("IPv6, ") && conditions.link.matches("(veth, ").count() == 2,
        "{}",
        conditions.link
    );

    // Of both halves, the ways that are asked for.
    for (io, auth_io) in [("gso", "udp"), ("udp", "udp"), ("xdp", "udp")] {
        if let (Err(why), "xdp") = (sys::bpf::available(), io) {
            testing::skip("xdp", why);
            continue;
        }
        let output = sextant(&[&options[..], &["--io", io, "--auth-io", auth_io]].concat());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        assert!(text.contains(&format!("Measurer by {io}, AuthDNS by {auth_io}")), "{text}");
    }
}

#[test]
fn st_a_bench_asks_otherwise_where_the_kernel_cannot() {
    if !can() {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (out, queries) = (base.path().join("record"), base.path().join("queries.csv"));
    let small = "bench --path lab --duration 0.3 --repetitions 1 --max-rate 1000 --min-rate 500 --load poisson --queries";
    let words: Vec<&str> = small.split_ascii_whitespace().collect();
    let files = [queries.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = sextant(&[&words[..], &files].concat());
    let text = fs::read_to_string(out.join("results.json")).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let results: Results = serde_json::from_str(&text).unwrap();
    assert!(["gso", "udp"].contains(&results.settings.io.as_str()), "{}", results.settings.io);
    if was_unfit(&results) {
        return;
    }
    assert!(results.runs[0].trials.iter().all(|trial| matches!(trial.load, LoadModel::Poisson { .. })));
}

#[test]
fn st_what_a_killed_selftest_leaves_is_removed_by_the_next_command() {
    if !can() {
        return;
    }
    let _alone = alone();
    let mut child = command(&["selftest", "--rate", "1000"]).spawn().unwrap();
    let started = Instant::now();
    while namespaces_of(child.id()) < 3 {
        assert!(started.elapsed() < Duration::from_secs(30), "the lab is not made");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let down = sextant(&["lab", "down", "--name", &name("st-other")]);
    assert!(down.status.success(), "{}", stderr(&down));
    assert_eq!(namespaces_of(child.id()), 0);
}

#[test]
fn what_cannot_be_is_told_and_what_need_not_be_is_left_out() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (place, file) = (base.path().to_str().unwrap(), base.path().join("file"));
    fs::write(&file, "x").unwrap();
    let selftest = |options: &str| {
        let words: Vec<&str> = options.split_ascii_whitespace().collect();
        sextant(&[&["selftest", "--certificates", place], &words[..]].concat())
    };
    for (options, code, reason) in [
        ("--rate 100 --path loopback --io kernel", 3, "lo has no Ethernet"),
        ("--rate 100 --path loopback --io gso", 3, "--io gso cannot run here"),
        ("--rate 100 --server [::1]:9 --path lab", 2, "cannot be used with"),
        ("--rate 100 --list", 2, "cannot be used with"),
        ("--duration 1", 2, "--rate"),
    ] {
        let output = selftest(options);
        assert_eq!(output.status.code(), Some(code), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options}: {}", stderr(&output));
    }
    let output = selftest("--rate 100 --duration 0.6 --path loopback --names 10.0.0.0/28 --json");
    let widened: SelfTest = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(widened.names, "10.0.0.0/24", "220 * 0.6 names, each once");

    let elsewhere = ["selftest", "--rate", "100", "--duration", "0.3", "--path", "loopback"];
    let output = sextant(&[&elsewhere[..], &["--certificates", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("cannot keep the certificate in"), "{}", stderr(&output));
    assert!(stdout(&output).contains("passed"), "what was found is told all the same");
}

#[test]
fn st_without_privileges_it_is_the_loopback_and_the_reason() {
    if !can() {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let run = |path: &str| {
        let mut bounded = std::process::Command::new("setpriv");
        bounded.args(["--bounding-set", "-sys_admin", "--", env!("CARGO_BIN_EXE_sextant"), "selftest"]);
        bounded.args(["--rate", "200", "--duration", "0.3", "--path", path, "--certificates"]);
        bounded.arg(base.path()).output().unwrap()
    };
    let output = run("auto");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(
        text.contains("over the loopback device") && text.contains("not used: network namespaces need"),
        "{text}"
    );
    let output = run("lab");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("need CAP_SYS_ADMIN"), "{}", stderr(&output));
}
