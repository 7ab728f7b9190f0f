//! `sextant echo`: what it answers, what it counts, and whether others count the same.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use lab::network::{Lab, LabSpec, Role};
use serde_json::Value;

use crate::lab::{can, name};
use crate::running::{Background, alone, command, sextant, stderr};

/// What a generator sends in these tests, in q/s and seconds.
const RATE: &str = "4000";
const SECONDS: &str = "1";

fn start(arguments: &[&str]) -> (Background, String) {
    Background::start(command(arguments), "sextant echo: ready: ")
}

/// Ends a reflector and returns its report.
fn report(echo: Background) -> Value {
    echo.signal("INT");
    let (code, out, err) = echo.end();
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// Runs dnsperf in the Tester's namespace; returns how many queries it sent and how many came back.
fn dnsperf(lab: &Lab, server: &str) -> [u64; 2] {
    let directory = tempfile::tempdir().unwrap();
    let queries = directory.path().join("queries");
    let lines = (0..256).map(|n| format!("000-000-000-{n:03}.dns64perf.test AAAA\n"));
    fs::write(&queries, lines.collect::<String>()).unwrap();
    let mut dnsperf = lab.command(Role::Tester, "dnsperf");
    dnsperf.args(["-s", server, "-Q", RATE, "-l", SECONDS, "-d"]).arg(&queries);
    let output = dnsperf.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ["Queries sent:", "Queries completed:"].map(|label| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
        let figure = line.and_then(|line| line.split_whitespace().next());
        figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("no '{label}' in {text}"))
    })
}

/// Every query of dnsperf is answered over both families, and both sides and `--pacing` count the same.
fn agrees_with_dnsperf(io: &str) {
    if !can() {
        return;
    }
    if !testing::has_program("dnsperf", "dnsperf") {
        return;
    }
    let _alone = alone();
    let lab = Lab::up(&LabSpec { name: name(io), ..LabSpec::default() }).unwrap();
    let dut = lab.end(Role::Dut, Role::Tester);
    let listen = [format!("{}:53", dut.ipv4), format!("[{}]:53", dut.ipv6)];
    let mut arguments = vec!["echo", "--io", io, "--json", "--pacing", "--listen", &listen[0]];
    arguments.extend(["--listen", &listen[1], "--netns"]);
    let namespace = lab.namespace(Role::Dut);
    arguments.push(&namespace);
    let mut held = None;
    if io == "kernel" {
        if let Err(error) = sys::bpf::available() {
            testing::skip("xdp", error);
            return;
        }
        arguments.extend(["--device", &dut.device]);
        held = Some(lab.attach_pass(Role::Tester, Role::Dut).unwrap());
    } else {
        arguments.extend(["--threads", "2"]);
    }
    let (echo, _) = start(&arguments);
    let mut total = 0;
    for server in [dut.ipv4.to_string(), dut.ipv6.to_string()] {
        let [sent, completed] = dnsperf(&lab, &server);
        assert!(sent > 0 && completed == sent, "{completed} of {sent} came back from {server}");
        total += sent;
    }
    let report = report(echo);
    assert_eq!(["received", "answered"].map(|field| number(&report, field)), [total, total], "{report}");
    assert_eq!(["ignored", "not_sent", "dropped"].map(|field| number(&report, field)), [0; 3], "{report}");
    let pacing = &report["pacing"];
    assert_eq!(number(pacing, "queries") + number(pacing, "outside"), total, "{report}");
    drop(held);
}

#[test]
fn lb_echo_on_sockets_agrees_with_dnsperf() {
    agrees_with_dnsperf("udp");
}

#[test]
fn lb_echo_with_segments_agrees_with_dnsperf() {
    agrees_with_dnsperf("gso");
}

#[test]
fn lb_echo_in_the_kernel_agrees_with_dnsperf() {
    agrees_with_dnsperf("kernel");
}

/// A socket that talks to the address in a ready line.
fn client(ready: &str) -> UdpSocket {
    let at = ready.find("127.0.0.1:").unwrap();
    let address: String = ready[at..].chars().take_while(|&c| c != ' ' && c != ',').collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

#[test]
fn lb_only_queries_come_back_unless_told() {
    let query = *b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x1c\x00\x01";
    let mut response = query;
    response[2] |= 0x80;
    let long = [0; 3000];
    for io in ["udp", "gso"] {
        let (echo, ready) = start(&["echo", "--io", io, "--listen", "127.0.0.1:0", "--json"]);
        let socket = client(&ready);
        for ignored in [&response[..], &query[..11], b"", &long] {
            socket.send(ignored).unwrap();
        }
        socket.send(&query).unwrap();
        let mut answer = [0; 64];
        // The first to come back, so that the others did not.
        assert_eq!(socket.recv(&mut answer).unwrap(), query.len());
        assert_eq!(answer[..query.len()], response, "the same octets and QR");
        let report = report(echo);
        assert_eq!(["received", "answered", "ignored"].map(|field| number(&report, field)), [5, 1, 4]);
        assert_eq!(report["pacing"], Value::Null);

        let (echo, ready) = start(&["echo", "--io", io, "--listen", "127.0.0.1:0", "--json", "--raw"]);
        let socket = client(&ready);
        for raw in [&response[..], b"x"] {
            socket.send(raw).unwrap();
            let length = socket.recv(&mut answer).unwrap();
            assert_eq!(&answer[..length], raw);
        }
        assert_eq!(number(&self::report(echo), "answered"), 2);
    }
}

#[test]
fn lb_what_a_stopped_reflector_drops_is_counted() {
    const QUERIES: u64 = 60_000;
    let _alone = alone();
    let (echo, ready) = start(&["echo", "--listen", "127.0.0.1:0", "--json"]);
    let socket = client(&ready);
    echo.signal("STOP");
    let query = [0; 1400];
    for _ in 0..QUERIES {
        socket.send(&query).unwrap();
    }
    echo.signal("CONT");
    // Our own socket is too small for all answers, so the end is asked for until it comes.
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut sent, mut last) = (QUERIES, 0);
    while last != 12 {
        socket.send(&query[..12]).unwrap();
        sent += 1;
        while last != 12 {
            let Ok(length) = socket.recv(&mut [0; 2048]) else { break };
            last = length;
        }
    }
    let report = report(echo);
    let [received, dropped] = ["received", "dropped"].map(|field| number(&report, field));
    assert!(dropped > 0 && received + dropped == sent, "{report}");
}

#[test]
fn lb_the_series_has_every_query() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("arrivals.csv");
    let path = file.to_str().unwrap();
    let (echo, ready) = start(&["echo", "--listen", "127.0.0.1:0", "--pacing", "--series", path]);
    let socket = client(&ready);
    for n in 0..200u8 {
        socket.send(&[n, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        socket.recv(&mut [0; 64]).unwrap();
        std::thread::sleep(Duration::from_micros(500));
    }
    echo.signal("TERM");
    let (code, out, err) = echo.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("200 received, 200 answered, 0 ignored"), "{out}");
    assert!(out.contains("longest silence") && out.contains("ideal cv"), "{out}");
    let series = fs::read_to_string(&file).unwrap();
    let counts = series.lines().skip(1).map(|line| line.split_once(',').unwrap().1.parse::<u64>().unwrap());
    assert!(series.starts_with("ms,queries\n0,"), "{series}");
    assert_eq!(counts.sum::<u64>(), 200);
}

#[test]
fn lb_a_command_runs_in_the_namespace_given() {
    if !can() {
        return;
    }
    let _alone = alone();
    let lab = Lab::up(&LabSpec { name: name("netns"), ..LabSpec::default() }).unwrap();
    let auth = lab.end(Role::Auth, Role::Tester);
    let listen = format!("[{}]:53", auth.ipv6);
    let namespace = lab.namespace(Role::Auth);
    let options =
        ["--aaaa-share", "100", "--aaaa-prefix", "2001:db8:64::/96", "--json", "--netns", &namespace];
    let serving = command(&[&["auth", "--listen", &listen], &options[..]].concat());
    let (serving, _) = Background::start(serving, "sextant auth: ready");
    let tester = lab.namespace(Role::Tester);
    let asking = ["--netns", &tester, "trial", "--server", &listen, "--rate", "500", "--duration", "0.5"];
    let trial = sextant(&asking);
    // 3: something else on this machine voided the trial.
    assert!(matches!(trial.status.code(), Some(0 | 3)), "{}", stderr(&trial));
    serving.signal("INT");
    let counted: Value = serde_json::from_str(&serving.end().1).unwrap();
    assert!(number(&counted["udp"], "answers") >= 250, "{counted}");

    let nowhere = sextant(&["--netns", "lb-nowhere", "trial", "--server", &listen, "--rate", "1"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(stderr(&nowhere).contains("there is no network namespace lb-nowhere"), "{}", stderr(&nowhere));
}

#[test]
fn lb_options_that_do_not_go_together_are_told() {
    for (arguments, code, reason) in [
        (&["--io", "kernel"][..], 2, "add --device NAME"),
        (&["--io", "kernel", "--device", "lo", "--raw"], 2, "are for sockets"),
        (&["--io", "udp", "--device", "lo"], 2, "--device is for --io kernel"),
        (&["--nominal", "5"], 2, "--pacing"),
        (&["--device", "lo", "--listen", "[::]:0"], 2, "needs a port"),
        (&["--device", "lb-nowhere", "--listen", "[::]:53"], 3, "lb-nowhere"),
        (&["--listen", "192.0.2.1:5300"], 3, "choose an address of this machine"),
        (&["--listen", "127.0.0.1:0", "--cpus", "8000"], 2, "processor 8000 may not be used"),
        (&["--pacing", "--series", "/nonexistent/x.csv"], 3, "cannot write /nonexistent/x.csv"),
    ] {
        let output = sextant(&[&["echo", "--duration", "0.01"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "'{reason}' is missing in: {}", stderr(&output));
    }
}

#[test]
fn lb_a_program_on_the_device_is_named_and_left_there() {
    if !can() {
        return;
    }
    if let Err(error) = sys::bpf::available() {
        testing::skip("xdp", error);
        return;
    }
    let lab = Lab::up(&LabSpec { name: name("taken"), ..LabSpec::default() }).unwrap();
    let held = lab.attach_pass(Role::Dut, Role::Tester).unwrap();
    let namespace = lab.namespace(Role::Dut);
    let arguments = ["echo", "--netns", &namespace, "--device", "tester0", "--listen", "[::]:53"];
    let output = sextant(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("tester0"), "{}", stderr(&output));
    drop(held);
    // Held by a run for its command alone.
    let lists = |xdp_pass: &[&str]| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_sextant"));
        run.args(["lab", "run", "--name", &name("held"), "--in", "dut"]).args(xdp_pass);
        let output = run.args(["--", "ip", "link", "show", "dev", "tester0"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(lists(&["--xdp-pass"]).contains("prog/xdp") && !lists(&[]).contains("prog/xdp"));
}
