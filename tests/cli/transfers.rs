//! `sextant trial --transfer` from real servers, and from those that transfer nothing.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::running::{Background, alone, auth, command, free_port, sextant, stderr, stdout};

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

const SECRET: &str = "c2VjcmV0IG9mIGEgdGVzdCBvZiB0cmFuc2ZlcnM=";

/// Writes a key for the options of the program; returns its file and its text.
fn write_key(directory: &Path, name: &str, secret: &str) -> (String, String) {
    let text = format!("key \"{name}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n");
    let path = directory.join(format!("{name}-{}", secret.len()));
    std::fs::write(&path, &text).unwrap();
    (path.to_str().unwrap().to_owned(), text)
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
    assert_eq!((&summary["complete"], &told["answers"]), (&json!(3), &json!({"full": 3})));
    let spread = |name: &str| ["min", "median", "max"].map(|which| summary[name][which].as_u64().unwrap());
    assert!(spread("last_message_ns").is_sorted() && spread("records_per_s")[0] > 0, "{summary}");
}

/// Signatures of the server, and what it refuses.
fn check_signed(server: &str, directory: &Path) {
    let (key, _) = write_key(directory, "transfer.test", SECRET);
    check(server, &["--tsig", &key]);
    let (wrong_secret, _) = write_key(directory, "transfer.test", "c2VjcmV0");
    let (wrong_name, _) = write_key(directory, "other.test", SECRET);
    for (key, reason) in [(wrong_secret, "TSIG error BADSIG"), (wrong_name, "TSIG error BADKEY")] {
        let (code, told) = transfers(server, &["--tsig", &key]);
        assert_eq!((code, &told["failures"]), (Some(1), &json!({"tsig": 1})), "{told}");
        assert_eq!(told["transfers"][0]["failure"]["reason"], reason, "{told}");
    }
    assert_eq!(transfers(&changing_way(server), &[]).0, Some(0));
    let (code, told) = transfers(&changing_way(server), &["--tsig", &key]);
    assert_eq!((code, &told["failures"]), (Some(1), &json!({"tsig": 1})), "{told}");
    assert_eq!(told["transfers"][0]["failure"]["reason"], "wrong TSIG", "{told}");
}

/// A way to the server on which one bit of the zone changes: in an address, where nothing but a signature
/// tells it.
fn changing_way(server: &str) -> String {
    let address: Ipv6Addr = "2001:db8::1234".parse().unwrap();
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let way = listener.local_addr().unwrap().to_string();
    let mut server = TcpStream::connect(server).unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut queries = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut queries.0, &mut queries.1));
        let (mut come, mut part) = (Vec::new(), [0; 16 << 10]);
        let at = loop {
            let octets = server.read(&mut part).unwrap();
            assert!(octets > 0, "no {address}");
            come.extend(&part[..octets]);
            if let Some(at) = come.windows(16).position(|octets| octets == address.octets()) {
                break at;
            }
        };
        come[at + 15] ^= 1;
        // The client may have found it before the end.
        let _ = client.write_all(&come).and_then(|()| std::io::copy(&mut server, &mut client));
    });
    way
}

/// A server without a history sends the whole zone, unless there is nothing to send.
fn check_without_history(server: &str) {
    check(server, &["--since", "6"]);
    let (code, told) = transfers(server, &["--since", "7"]);
    assert_eq!((code, &told["answers"]), (Some(0), &json!({"up_to_date": 1})), "{told}");
    let records = &told["transfers"][0]["records"];
    assert_eq!((records, &told["since"]), (&json!(1), &json!(7)), "{told}");
}

/// Transfers of the whole zone at a rate: each is in one class, and begins at its instant.
fn check_rate(server: &str, options: &[&str]) {
    let at_rate = ["--rate", "10", "--duration", "2"];
    let (code, told) = transfers(server, &[options, &at_rate].concat());
    assert_eq!(
        (code, &told["answers"], &told["wanted"]),
        (Some(0), &json!({"full": 20}), &json!(20)),
        "{told}"
    );
    let each = told["transfers"].as_array().unwrap();
    let instants: Vec<Option<u64>> = each.iter().map(|one| one["instant_ns"].as_u64()).collect();
    assert_eq!(instants, (0..20).map(|number| Some(number * 100_000_000)).collect::<Vec<_>>());
    let summary = &told["summary"];
    let figures =
        |name: &str| ["min", "median", "p99", "max"].map(|which| summary[name][which].as_u64().unwrap());
    assert_eq!(figures("records"), [RECORDS; 4]);
    for name in ["late_ns", "whole_ns", "octets", "last_message_ns"] {
        assert!(figures(name).is_sorted(), "{name}: {summary}");
    }
    assert!(figures("whole_ns")[0] > figures("last_message_ns")[0], "{summary}");
}

/// The zone, a certificate and the configuration of NSD in a directory.
fn configure_nsd(base: &Path, port: u16, tls_port: u16) -> PathBuf {
    let directory = base.display();
    write_zone(&base.join("zone"));
    let made = rcgen::generate_simple_self_signed(["zone.test".to_owned()]).unwrap();
    std::fs::write(base.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(base.join("cert.pem"), made.cert.pem()).unwrap();
    let text = format!(
        "key:\n  name: transfer.test\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
         server:\n  ip-address: ::1@{port}\n  ip-address: ::1@{tls_port}\n  server-count: 1\n  username: \"\"\n  \
         zonesdir: \"{directory}\"\n  database: \"\"\n  pidfile: \"{directory}/pid\"\n  \
         xfrdfile: \"{directory}/xfrd\"\n  zonelistfile: \"{directory}/list\"\n  xfrdir: \"{directory}\"\n  \
         tls-service-key: \"{directory}/key.pem\"\n  tls-service-pem: \"{directory}/cert.pem\"\n  \
         tls-port: {tls_port}\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: zone.test\n  zonefile: zone\n  provide-xfr: ::1 NOKEY\n  \
         provide-xfr: ::1 transfer.test\n"
    );
    let config = base.join("nsd.conf");
    std::fs::write(&config, text).unwrap();
    config
}

#[test]
fn nsd_transfers_its_zone_over_tcp_and_tls() {
    if !testing::has_program("nsd", "nsd") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (port, tls_port) = (free_port(), free_port());
    let config = configure_nsd(base.path(), port, tls_port);
    let mut nsd = Command::new("/usr/sbin/nsd");
    nsd.args(["-d", "-c", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (nsd, _) = Background::start(nsd, "nsd started");
    let server = format!("[::1]:{port}");
    check(&server, &[]);
    check(&server, &["--transport", "tcp"]);
    let authorities = base.path().join("cert.pem");
    let dot = ["--transport", "dot", "--tls-name", "zone.test", "--tls-ca", authorities.to_str().unwrap()];
    let tls_server = format!("[::1]:{tls_port}");
    check(&tls_server, &dot);
    check_rate(&tls_server, &dot);
    check_signed(&server, base.path());
    check_without_history(&server);
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
         key:\n  - id: transfer.test\n    algorithm: hmac-sha256\n    secret: \"{SECRET}\"\n\
         acl:\n  - id: all\n    address: ::1\n    action: transfer\n  \
         - id: signed\n    key: transfer.test\n    action: transfer\n\
         zone:\n  - domain: zone.test\n    file: \"{directory}/zone\"\n    acl: [all, signed]\n    zonefile-sync: -1\n    \
         journal-content: none\n    zonefile-load: whole\n"
    );
    let config = base.path().join("knot.conf");
    std::fs::write(&config, text).unwrap();
    let mut knot = Command::new("/usr/sbin/knotd");
    knot.args(["--config", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (knot, _) = Background::start(knot, "loaded, serial");
    let server = format!("[::1]:{port}");
    check(&server, &[]);
    check_signed(&server, base.path());
    check_without_history(&server);
    let (key, _) = write_key(base.path(), "transfer.test", SECRET);
    check_rate(&server, &["--tsig", &key]);
    let out = base.path().join("out");
    let (code, told) = transfers(&server, &["--out", out.to_str().unwrap()]);
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("transfers.json")).unwrap()).unwrap();
    assert_eq!((code, &kept), (Some(0), &told));
    assert!(out.join("manifest.json").exists());
    knot.signal("TERM");
}

/// Changes the zone as its key allows.
fn update(port: u16, key: &str, changes: &str) {
    let mut nsupdate = Command::new("/usr/bin/nsupdate");
    let mut child = nsupdate.args(["-k", key]).stdin(Stdio::piped()).spawn().unwrap();
    let text = format!("server ::1 {port}\nzone zone.test\n{changes}send\n");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{changes}");
}

/// Starts BIND with the zone, which the key alone may change and transfer.
fn start_bind(directory: &Path, port: u16, key: &str) -> Background {
    write_zone(&directory.join("zone"));
    let silent = ["security", "update", "update-security", "notify", "client", "xfer-out"];
    let config = directory.join("named.conf");
    let text = format!(
        "{key}options {{ directory \"{}\"; pid-file none; session-keyfile none; recursion no; notify no; \
         listen-on {{ none; }}; listen-on-v6 port {port} {{ ::1; }}; transfers-out 100; }};\n\
         logging {{ {} }};\ncontrols {{ }};\n\
         zone \"zone.test\" {{ type primary; file \"zone\"; allow-transfer {{ key \"transfer.test\"; }}; \
         allow-update {{ key \"transfer.test\"; }}; }};\n",
        directory.display(),
        // What nobody reads would fill the pipe, and BIND would wait.
        silent.map(|category| format!("category {category} {{ null; }};")).concat()
    );
    std::fs::write(&config, text).unwrap();
    let mut named = Command::new("/usr/sbin/named");
    named.args(["-g", "-c", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    Background::start(named, "all zones loaded").0
}

#[test]
fn bind_sends_the_changes_of_its_zone() {
    if !testing::has_program("named", "bind9") || !testing::has_program("nsupdate", "bind9-dnsutils") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let port = free_port();
    let (key, text) = write_key(base.path(), "transfer.test", SECRET);
    let _named = start_bind(base.path(), port, &text);
    update(port, &key, "del host-1.zone.test AAAA\nadd new.zone.test 300 AAAA 2001:db8::1\n");
    update(port, &key, "add a.zone.test 300 AAAA 2001:db8::2\nadd b.zone.test 300 AAAA 2001:db8::3\n");
    let server = format!("[::1]:{port}");
    check_signed_only(&server);
    for (since, answer, [records, removed, added]) in [
        // The SOA record in front; serials 7 and host-1, 8 and new; 8, 9 and a and b.
        ("7", "incremental", [9, 3, 5]),
        ("8", "incremental", [5, 1, 3]),
        ("9", "up_to_date", [1, 0, 0]),
        ("10", "up_to_date", [1, 0, 0]),
        ("3", "full", [RECORDS + 2, 0, 0]),
    ] {
        let (code, told) = transfers(&server, &["--tsig", &key, "--since", since]);
        assert_eq!((code, &told["answers"]), (Some(0), &json!({answer: 1})), "{since}: {told}");
        let one = &told["transfers"][0];
        let found = ["records", "removed", "added", "serial"].map(|name| one[name].as_u64());
        assert_eq!(found, [records, removed, added, 9].map(Some), "{since}: {told}");
    }
    let at_rate = ["--tsig", &key, "--since", "7", "--rate", "50", "--duration", "1"];
    let (code, told) = transfers(&server, &at_rate);
    assert_eq!((code, &told["answers"]), (Some(0), &json!({"incremental": 50})), "{told}");
    assert_eq!((&told["rate"], &told["tsig"]), (&json!(50), &json!("hmac-sha256 transfer.test.")), "{told}");
}

/// The server transfers nothing without a signature.
fn check_signed_only(server: &str) {
    let (code, told) = transfers(server, &["--since", "7"]);
    assert_eq!((code, &told["failures"]), (Some(1), &json!({"rcode": 1})), "{told}");
}

#[test]
fn a_rate_needs_open_files() {
    let program = command(&[]);
    let limited = Command::new("sh")
        .args(["-c", "ulimit -n 150; exec \"$@\"", "sh", program.get_program().to_str().unwrap()])
        .args(["trial", "--server", "[::1]:1", "--transfer", "zone.test", "--rate", "50"])
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(2), "{}", stderr(&limited));
    let reason = "need 178 open files, 150 are allowed: lower --rate or --timeout";
    assert!(stderr(&limited).contains(reason), "{}", stderr(&limited));
}

#[test]
fn who_transfers_nothing_fails_the_trial() {
    let _alone = alone();
    let (_auth, server) = auth();
    let (code, told) = transfers(&server, &["--transfers", "2"]);
    assert_eq!((code, &told["failures"]), (Some(1), &json!({"rcode": 2})), "{told}");
    assert_eq!(told["summary"], Value::Null);
    let (code, told) = transfers("[::1]:1", &[]);
    assert_eq!((code, &told["failures"]), (Some(1), &json!({"connection_refused": 1})), "{told}");
    for (options, reason) in [
        ("--transfer zone.test --rate 5 --transfers 2", "cannot be used with"),
        ("--transfer zone.test --rate 5000", "300000 transfers: 1 to 100000 can be made"),
        ("--transfer zone.test --rate 500 --timeout 9", "4500 at a time, and 2000 can be"),
        ("--transfer zone.test --since x", "invalid value 'x'"),
        ("--since 5 --rate 1", "--since is for --transfer ZONE"),
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
