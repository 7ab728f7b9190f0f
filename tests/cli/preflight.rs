//! `sextant preflight`: what it finds of this machine, and of environments with a planted fault.

use std::io::Write;
use std::process::{Output, Stdio};

use lab::network::{Lab, LabSpec, Role};
use serde_json::Value;

use super::lab::{can, name};
use super::running::{Background, alone, command, sextant, stderr};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// What should be mended, but for what the machine brings along: each finding by its name.
fn faults(record: &Value) -> Vec<String> {
    let machines = |what: &str| {
        let own = ["processors", "SMT", "frequency governor", "turbo", "other load", "steal", "memory"];
        let more = ["receive buffers", "backlog", "port range", "connection tracking", "clock source"];
        own.contains(&what)
            || more.contains(&what)
            || what == "kernel warnings"
            || what.starts_with("device ")
    };
    let findings = record["findings"].as_array().unwrap().iter();
    let faults = findings.filter(|finding| finding["severity"] != "ok");
    faults
        .map(|finding| finding["what"].as_str().unwrap().to_owned())
        .filter(|what| !machines(what))
        .collect()
}

#[test]
fn preflight_says_what_it_found() {
    let output = sextant(&["preflight", "--json"]);
    let record = json(&output);
    let findings = record["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["what"] == "processors"), "{record}");
    let has = |severity: &str| findings.iter().any(|finding| finding["severity"] == severity);
    let expected = if has("fatal") { 3 } else { i32::from(has("warning")) };
    assert_eq!(output.status.code(), Some(expected), "{record}");
    assert_eq!(record["rungs"], Value::Null, "nothing was sent");
}

#[test]
fn nothing_is_mended_without_a_yes() {
    let before = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    for answer in ["n\nn\nn\nn\nn\nn\nn\nn\n", ""] {
        let mut child = command(&["preflight", "--fix"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(stderr(&output).contains("nothing was changed"), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap(), before);
}

#[test]
fn options_of_the_ladder_need_it() {
    for (options, reason) in [
        ("--server [::1]:9", "--ladder"),
        ("--ladder --pid 5", "--server"),
        ("--ladder --io kernel", "is climbed with sockets, not with --io kernel"),
        ("--ladder --server [::1]:9 --queues 2", "cannot be used with"),
    ] {
        let options = options.split(' ').collect::<Vec<_>>();
        let output = sextant(&[&["preflight"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options:?}: {}", stderr(&output));
    }
    let nobody = sextant(&["preflight", "--ladder", "--server", "[::1]:9"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", stderr(&nobody));
    assert!(stderr(&nobody).contains("nothing listens at [::1]:9"), "{}", stderr(&nobody));
}

#[test]
fn the_ladder_of_this_machine_finds_one_port_and_one_queue() {
    if !can() {
        return;
    }
    let _alone = alone();
    let climb = |options: &[&str]| {
        let output = sextant(&[&["preflight", "--ladder", "--duration", "0.5", "--json"], options].concat());
        let record = json(&output);
        let rungs = record["rungs"].as_array().unwrap();
        assert!(
            rungs.len() >= 4 && rungs.iter().all(|rung| rung["rate_qps"].as_f64() > Some(0.0)),
            "{record}"
        );
        record
    };
    for (options, fault) in [
        (&[][..], None),
        (&["--ports", "1"], Some("port spread")),
        (&["--queues", "1"], Some("server's queues")),
    ] {
        let record = climb(options);
        let found = faults(&record);
        assert!(fault.is_none_or(|fault| found.iter().any(|found| found == fault)), "{options:?}: {found:?}");
        for planted in ["port spread", "server's queues"] {
            let expected = fault == Some(planted);
            assert_eq!(found.iter().any(|found| found == planted), expected, "{options:?}: {found:?}");
        }
    }
}

#[test]
fn the_ladder_finds_a_slow_reflector_and_tiny_buffers() {
    if !can() {
        return;
    }
    let _alone = alone();
    let lab = Lab::up(&LabSpec { name: name("ladder"), queues: 2, ..LabSpec::default() }).unwrap();
    let listen = format!("[{}]:53", lab.end(Role::Dut, Role::Tester).ipv6);
    let (dut, tester) = (lab.namespace(Role::Dut), lab.namespace(Role::Tester));
    for (planted, fault) in
        [(&["--work", "200"][..], "reflector"), (&["--receive-buffer", "2304"], "socket buffers")]
    {
        let reflect = ["--netns", &dut, "echo", "--listen", &listen, "--threads", "2", "--cpus", "0"];
        let (reflector, _) = Background::start(command(&[&reflect[..], planted].concat()), "ready");
        let pid = reflector.pid().to_string();
        let climb = ["--netns", &tester, "preflight", "--ladder", "--server", &listen, "--duration", "0.5"];
        let known = json(&sextant(&[&climb[..], &["--pid", &pid, "--json"]].concat()));
        assert!(faults(&known).iter().any(|found| found == fault), "{planted:?}: {known}");
        let unknown = json(&sextant(&[&climb[..], &["--json"]].concat()));
        assert!(
            !faults(&unknown).contains(&"reflector".to_owned()),
            "whose time it is cannot be seen: {unknown}"
        );
        reflector.signal("TERM");
    }
}
