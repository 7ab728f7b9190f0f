//! `sextant peers` with the real servers that are installed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::running::{Background, alone, command, sextant, stderr};

/// The peers that start here, with their programs.
fn listed() -> Vec<Value> {
    let output = sextant(&["peers", "list", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_peer_has_a_configuration_with_the_settings() {
    for peer in listed() {
        let name = peer["name"].as_str().unwrap();
        let output = sextant(&["peers", "config", name, "--listen", "[::1]:5399", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = told["configuration"].as_str().unwrap();
        // dnsdist forwards alone.
        let has_prefix = text.contains("2001:db8:64::") || name == "dnsdist";
        assert!(has_prefix && text.contains("127.0.0.1"), "{name}:\n{text}");
        let plain = sextant(&["peers", "config", name, "--listen", "[::1]:5399"]);
        assert_eq!(String::from_utf8_lossy(&plain.stdout), text);
        // It is installed, or the line says how it is had.
        let missing = peer["error"].as_str().unwrap_or("install");
        assert!(missing.contains("install") || missing.contains("build"), "{missing}");
    }
}

#[test]
fn every_authoritative_server_has_a_configuration_too() {
    let output = sextant(&["peers", "list", "--authoritative", "--json"]);
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(listed.len() >= 8, "{listed:?}");
    for server in listed {
        let name = server["name"].as_str().unwrap();
        let options =
            ["peers", "config", name, "--authoritative", "/srv/zone", "--listen", "[::1]:5399", "--json"];
        let output = sextant(&options);
        assert!(output.status.success(), "{}", stderr(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (text, arguments) = (told["configuration"].to_string(), told["arguments"].to_string());
        let has_zone = text.contains("/srv/zone")
            || [&text, &arguments].iter().any(|told| told.contains("dns64perf.test"));
        assert!(has_zone && !told["program"].as_str().unwrap().is_empty(), "{name}: {told}");
    }
    let unknown = sextant(&["peers", "config", "bnid", "--authoritative", "/srv/zone"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("choose one of sextant, sextant-kernel, nsd"), "{}", stderr(&unknown));
}

#[test]
fn a_peer_that_cannot_be_started_says_what_to_do() {
    let _alone = alone();
    let run = |name: &str, extra: &[&str]| {
        let arguments = ["peers", "run", name, "--auth", "127.0.0.1:9", "--listen", "[::1]:5398"];
        sextant(&[&arguments[..], extra].concat())
    };
    for (output, reason) in [
        (run("mtd64-ng", &[]), "--dut ADDR:PORT"),
        (run("knot-resolver", &["--prefix", "2001:db8::/32"]), "choose another --prefix"),
        (run("dns64d-xdp", &[]), "--path lab"),
        (
            run("bnid", &[]),
            "choose one of dns64d, dns64d-xdp, unbound, bind, pdns-recursor, knot-resolver, coredns, dnsdist, totd",
        ),
    ] {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn installed_peers_run_and_tell_what_they_use_and_count() {
    let _alone = alone();
    let auth = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (_auth, _) = Background::start(command(&["auth", "--listen", &auth, "--io", "udp"]), "ready");
    for peer in listed() {
        let name = peer["name"].as_str().unwrap();
        // Those are started by hand; dns64d-xdp needs devices, and is measured in a lab.
        if name.starts_with("mtd64") || name == "dns64d-xdp" {
            continue;
        }
        if let Some(missing) = peer["error"].as_str() {
            testing::skip(&format!("peer {name}"), missing);
            continue;
        }
        run(name, &["--auth", &auth]);
    }
}

#[test]
fn installed_authoritative_servers_run_with_a_zone_file() {
    let _alone = alone();
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let zone = directory.path().join("zone").to_str().unwrap().to_owned();
    assert!(sextant(&["zone", "--names", "10.0.0.0/24", "--out", &zone]).status.success());
    let output = sextant(&["peers", "list", "--authoritative", "--json"]);
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for server in listed {
        let name = server["name"].as_str().unwrap();
        // It is started by hand.
        if name == "fakedns" {
            continue;
        }
        if let Some(missing) = server["error"].as_str() {
            testing::skip(&format!("peer {name}"), missing);
            continue;
        }
        if matches!(name, "sextant-kernel" | "knot-xdp") {
            let refused =
                sextant(&["peers", "run", name, "--authoritative", &zone, "--listen", "[::1]:5398"]);
            assert!(stderr(&refused).contains("name it with --devices"), "{}", stderr(&refused));
            continue;
        }
        run(name, &["--authoritative", &zone]);
    }
    let none = sextant(&["peers", "run", "nsd", "--authoritative", "/dev/null", "--listen", "[::1]:5398"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("'sextant zone' writes such files"));
}

/// Runs a server until it has told what it uses, and ends it as Ctrl-C does.
fn run(name: &str, source: &[&str]) {
    let listen = std::net::UdpSocket::bind("[::1]:0").unwrap().local_addr().unwrap().to_string();
    let mut peers =
        command(&["peers", "run", name, "--json", "--statistics", "--watch", "0.3", "--cpus", "0"]);
    let mut child = peers.args(source).args(["--listen", &listen]).stderr(Stdio::inherit()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        let line = lines.next().unwrap_or_else(|| panic!("{name} ended")).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let ready = next();
    assert_eq!((ready["event"].as_str(), ready["name"].as_str()), (Some("ready"), Some(name)), "{ready}");
    let used = next();
    assert!(used["event"] == "use" && used["memory_octets"].as_u64() > Some(1 << 20), "{name}: {used}");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let counted = std::iter::repeat_with(&mut next).find(|line| line["event"] == "statistics").unwrap();
    let text = counted["text"].as_str().unwrap();
    let tells = source[0] == "--auth" && !matches!(name, "bind" | "coredns" | "dnsdist" | "totd");
    assert!(!tells || text.lines().count() > 5, "{name}: {text}");
    assert!(child.wait().unwrap().success(), "{name}");
    let server = format!("/proc/{}", ready["pid"]);
    assert!(!std::path::Path::new(&server).exists(), "{name} is still there");
}
