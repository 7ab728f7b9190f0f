//! `sextant trial --transfer` from real servers, and from those that transfer nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::running::{Background, alone, auth, free_port, sextant, stderr, stdout};

/// Addresses in the zone.
const ADDRESSES: usize = 5000;
/// With SOA, NS and the address of the name server.
const RECORDS: u64 = ADDRESSES as u64 + 3;

fn write_zone(path: &Path) {
    let mut text = String::from("$TTL 300\n@ SOA ns host 7 3600 600 86400 300\n@ NS ns\nns AAAA ::1\n");
    for number in 0..ADDRESSES {
        text += &format!("host-{number} AAAA 2001:db8::{number:x}\n");
    }
    std::fs::write(path, text).unwrap();
}

fn transfers(server: &str, options: &[&str]) -> (Option<i32>, Value) {
    let fixed = ["trial", "--server", server, "--transfer", "zone.test", "--timeout", "5", "--json"];
    let output = sextant(&[&fixed[..], options].concat());
    let told = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{options:?}: {error}: {}", stderr(&output)));
    (output.status.code(), told)
}

/// Every transfer brought the whole zone, and the summary is over all of them.
fn check(server: &str, options: &[&str]) {
    let (code, told) = transfers(server, &[options, &["--transfers", "3"]].concat());
    assert_eq!(code, Some(0), "{told}");
    let each = told["transfers"].as_array().unwrap();
    assert_eq!(each.len(), 3);
    for transfer in each {
        let number = |name: &str| transfer[name].as_u64();
        assert_eq!((number("records"), number("serial")), (Some(RECORDS), Some(7)), "{transfer}");
        assert!(number("messages") > Some(1) && number("octets") > Some(100_000), "{transfer}");
        assert!(number("first_message_ns") < number("last_message_ns"), "{transfer}");
        assert_eq!(number("handshake_ns").is_some(), told["protocol"] == "dot", "{transfer}");
    }
    let summary = &told["summary"];
    assert_eq!(summary["complete"], 3);
    let spread = |name: &str| ["min", "median", "max"].map(|which| summary[name][which].as_u64().unwrap());
    assert!(spread("last_message_ns").is_sorted() && spread("records_per_s")[0] > 0, "{summary}");
}

#[test]
fn nsd_transfers_its_zone_over_tcp_and_tls() {
    if !testing::has_program("nsd", "nsd") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().display();
    write_zone(&base.path().join("zone"));
    let made = rcgen::generate_simple_self_signed(["zone.test".to_owned()]).unwrap();
    std::fs::write(base.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(base.path().join("cert.pem"), made.cert.pem()).unwrap();
    let (port, tls_port) = (free_port(), free_port());
    let text = format!(
        "server:\n  ip-address: ::1@{port}\n  ip-address: ::1@{tls_port}\n  server-count: 1\n  username: \"\"\n  \
         zonesdir: \"{directory}\"\n  database: \"\"\n  pidfile: \"{directory}/pid\"\n  \
         xfrdfile: \"{directory}/xfrd\"\n  zonelistfile: \"{directory}/list\"\n  xfrdir: \"{directory}\"\n  \
         tls-service-key: \"{directory}/key.pem\"\n  tls-service-pem: \"{directory}/cert.pem\"\n  \
         tls-port: {tls_port}\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: zone.test\n  zonefile: zone\n  provide-xfr: ::1 NOKEY\n"
    );
    let config = base.path().join("nsd.conf");
    std::fs::write(&config, text).unwrap();
    let mut nsd = Command::new("/usr/sbin/nsd");
    nsd.args(["-d", "-c", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (nsd, _) = Background::start(nsd, "nsd started");
    let server = format!("[::1]:{port}");
    check(&server, &[]);
    check(&server, &["--transport", "tcp"]);
    let authorities = base.path().join("cert.pem");
    let dot = ["--transport", "dot", "--tls-name", "zone.test", "--tls-ca", authorities.to_str().unwrap()];
    check(&format!("[::1]:{tls_port}"), &dot);
    let arguments = ["trial", "--server", &server, "--transfer", "other.test"];
    let refused = sextant(&arguments);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let text = stdout(&refused);
    assert!(text.starts_with("FAIL: 0 of 1 transfer of other.test (AXFR) from [::1]:"), "{text}");
    assert!(text.contains("\n  rcode ") && text.contains("1: NOTAUTH (after 0 records)"), "{text}");
    nsd.signal("TERM");
}

#[test]
fn knot_transfers_its_zone_and_the_result_is_kept() {
    if !testing::has_program("knotd", "knot") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().display();
    write_zone(&base.path().join("zone"));
    let port = free_port();
    let text = format!(
        "server:\n  listen: ::1@{port}\n  rundir: \"{directory}\"\n  udp-workers: 1\n  tcp-workers: 1\n  \
         background-workers: 1\nlog:\n  - target: stderr\n    any: info\ndatabase:\n  storage: \"{directory}\"\n\
         acl:\n  - id: all\n    address: ::1\n    action: transfer\n\
         zone:\n  - domain: zone.test\n    file: \"{directory}/zone\"\n    acl: all\n    zonefile-sync: -1\n    \
         journal-content: none\n    zonefile-load: whole\n"
    );
    let config = base.path().join("knot.conf");
    std::fs::write(&config, text).unwrap();
    let mut knot = Command::new("/usr/sbin/knotd");
    knot.args(["--config", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (knot, _) = Background::start(knot, "loaded, serial");
    let server = format!("[::1]:{port}");
    check(&server, &[]);
    let out = base.path().join("out");
    let (code, told) = transfers(&server, &["--out", out.to_str().unwrap()]);
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("transfers.json")).unwrap()).unwrap();
    assert_eq!((code, &kept), (Some(0), &told));
    assert!(out.join("manifest.json").exists());
    knot.signal("TERM");
}

#[test]
fn who_transfers_nothing_fails_the_trial() {
    let _alone = alone();
    let (_auth, server) = auth();
    let (code, told) = transfers(&server, &["--transfers", "2"]);
    assert_eq!((code, &told["failures"]), (Some(1), &serde_json::json!({"rcode": 2})), "{told}");
    assert_eq!(told["summary"], Value::Null);
    let (code, told) = transfers("[::1]:1", &[]);
    assert_eq!((code, &told["failures"]), (Some(1), &serde_json::json!({"connection_refused": 1})), "{told}");
    for (options, reason) in [
        ("--transfer zone.test --rate 5", "cannot be used with"),
        ("--transfer zone.test --qtype a", "cannot be used with"),
        ("--transfer zone.test --io udp", "cannot be used with"),
        ("--transfer zone.test --connections 5 --transport tcp", "cannot be used with"),
        ("--transfer zone.test --transport doq", "--transport doq: transfers go over tcp or dot"),
        ("--transfer zone..test", "invalid value 'zone..test'"),
        ("--transfers 5 --rate 1", "--transfer"),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let output = sextant(&[&["trial", "--server", &server], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options:?}: {}", stderr(&output));
    }
}
