//! `sextant auth` with a zone of many rules, as a user starts it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::running::{Background, command, sextant, stderr};

/// The first record's RDATA of the answer to a question for type A.
fn ask(server: &str, name: &str) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(server).unwrap();
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send(&query).unwrap();
    let mut answer = [0; 1232];
    let length = socket.recv(&mut answer).unwrap();
    answer[length - 4..length].to_vec()
}

#[test]
fn rules_records_and_signatures_are_options() {
    let directory = tempfile::tempdir().unwrap();
    let (records, anchor) = (directory.path().join("www.zone"), directory.path().join("ta.key"));
    std::fs::write(&records, "www A 192.0.2.1\n").unwrap();
    let serving = command(&[
        "auth",
        "--listen",
        "127.0.0.1:0",
        "--names",
        "10.0.0.0/8",
        "--rules",
        "short,chains,reverse",
        "--records",
        records.to_str().unwrap(),
        "--signed",
        "--key-seed",
        "a test",
        "--trust-anchor",
        anchor.to_str().unwrap(),
    ]);
    let (serving, ready) = Background::start(serving, "sextant auth: ready");
    let at = ready.find("127.0.0.1:").unwrap();
    let server = ready[at..].split([' ', ',']).next().unwrap();
    assert_eq!(ask(server, "10-0-0-7.c3.dns64perf.test"), [10, 0, 0, 7]);
    assert_eq!(ask(server, "www.dns64perf.test"), [192, 0, 2, 1]);
    serving.signal("INT");
    let (code, _, said) = serving.end();
    assert_eq!(code, Some(0));
    let ds = said.lines().find_map(|line| line.split_once("trust anchor: dns64perf.test. DS ")).unwrap().1;
    let written = std::fs::read_to_string(&anchor).unwrap();
    assert!(written.contains(&format!("\ndns64perf.test. 3600 IN DS {ds}\n")), "{written}");
    assert!(written.contains("\ndns64perf.test. 3600 IN DNSKEY 257 3 15 "), "{written}");
    let reverse = std::fs::read_to_string(directory.path().join("ta.key.10.in-addr.arpa")).unwrap();
    assert!(reverse.contains("trust-anchors { \"10.in-addr.arpa.\" static-key 257 3 15 "), "{reverse}");
}

#[test]
fn what_cannot_be_served_is_told_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let records = directory.path().join("bad.zone");
    std::fs::write(&records, "www A 192.0.2.1\nmail A nowhere\n").unwrap();
    let path = records.to_str().unwrap();
    let long = "a.".repeat(115);
    let missing = directory.path().join("no/such/directory");
    for (options, code, expected) in [
        (&["--records", path][..], 2, format!("sextant auth: {path}, line 2: ")),
        (&["--signed", "--suffix", &long], 2, "leaves no room for the hashes of a signed zone".to_owned()),
        (&["--suffix", "a b"], 2, "suffix 'a b': only letters, digits".to_owned()),
        (&["--signed", "--trust-anchor", missing.to_str().unwrap()], 3, "--trust-anchor ".to_owned()),
        (&["--signed-days", "3"], 2, "--signed".to_owned()),
        (&["--io", "kernel", "--threads", "2"], 2, "not in chosen threads".to_owned()),
        (&["--io", "kernel", "--cpus", "0"], 2, "not in chosen threads".to_owned()),
        (&["--rules", "everything"], 2, "short, wildcard, chains, types, reverse, all".to_owned()),
    ] {
        let ended = sextant(&[&["auth", "--listen", "127.0.0.1:0", "--duration", "0.1"], options].concat());
        assert_eq!(ended.status.code(), Some(code), "{options:?}: {}", stderr(&ended));
        assert!(stderr(&ended).contains(&expected), "{options:?}: {}", stderr(&ended));
    }
}

#[test]
fn a_zone_file_does_not_leave_rules_out_silently() {
    for options in [&["--rules", "types"][..], &["--signed"]] {
        let ended = sextant(&[&["zone", "--names", "10.0.0.0/30", "--out", "-"], options].concat());
        assert_eq!(ended.status.code(), Some(2), "{options:?}");
        assert!(stderr(&ended).contains(&format!("leave out {}", options[0])), "{}", stderr(&ended));
        assert!(ended.stdout.is_empty());
    }
}
