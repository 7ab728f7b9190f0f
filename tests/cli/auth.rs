//! `sextant auth` with a zone of many rules, as a user starts it.

use std::net::UdpSocket;
use std::time::Duration;

use record::Trial;
use serde_json::Value;

use crate::running::{Background, alone, command, free_port, sextant, stderr};

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

/// A number of a transport in the counters.
fn count(counters: &Value, transport: &str, field: &str) -> u64 {
    counters[transport][field].as_u64().unwrap_or_else(|| panic!("{counters}"))
}

#[test]
fn trials_over_connections_count_what_the_authdns_counts() {
    let _alone = alone();
    let [tcp, dot, doh, doq, doh3] = std::array::from_fn(|_| format!("127.0.0.1:{}", free_port()));
    let listen = ["--listen", &tcp, "--dot", &dot, "--doh", &doh, "--doq", &doq, "--doh3", &doh3];
    let serving = command(
        &[&["auth", "--json", "--aaaa-share", "100", "--aaaa-prefix", "2001:db8:64::/96"], &listen[..]]
            .concat(),
    );
    let (serving, line) = Background::start(serving, "TLS pin");
    let pin = line.strip_prefix("sextant auth: TLS pin: ").unwrap().trim_end();
    let (mut sent, mut opened) = (Vec::new(), 0);
    for (server, options) in [
        (&tcp, &["--transport", "tcp", "--queries-per-connection", "20"][..]),
        (&doh3, &["--transport", "doh3", "--tls-pin", pin, "--doh-method", "get"]),
        (&doh3, &["--transport", "doh3", "--tls-pin", pin, "--doh-method", "post"]),
        (&dot, &["--transport", "dot", "--tls-pin", pin, "--queries-per-connection", "20"]),
    ] {
        let fixed = ["trial", "--server", server, "--rate", "1000", "--duration", "1", "--json"];
        let output = sextant(&[&fixed, options].concat());
        let trial: Trial =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        // On a busy machine some may wait too long for their connection, and are not sent.
        assert!(trial.sent > trial.scheduled / 2, "{:?} {:?}", trial.losses, trial.connections);
        assert_eq!((trial.answered, trial.invalid, trial.lost), (trial.sent, 0, 0), "{:?}", trial.losses);
        sent.push(trial.sent);
        opened = trial.connections.unwrap().opened;
    }
    let wrong = ["--transport", "dot", "--tls-pin", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="];
    let refused = sextant(&[&["trial", "--server", &dot, "--rate", "10"], &wrong[..]].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));

    serving.signal("INT");
    let (code, out, _) = serving.end();
    assert_eq!(code, Some(0));
    let counters: Value = serde_json::from_str(&out).unwrap();
    // A trial asks once or twice before it begins whether the server answers.
    let of_http3 = sent.drain(1..3).sum();
    sent.push(of_http3);
    for (transport, sent) in ["tcp", "dot", "doh3"].into_iter().zip(sent) {
        let answers = count(&counters, transport, "answers");
        let queries = count(&counters, transport, "queries_aaaa");
        assert!((sent..sent + 5).contains(&queries) && queries == answers, "{counters}");
    }
    assert!((opened..opened + 5).contains(&count(&counters, "dot", "connections")), "{counters}");
    assert!(count(&counters, "dot", "handshake_failures") >= 1, "{counters}");
    assert_eq!((count(&counters, "doh", "answers"), count(&counters, "doq", "answers")), (0, 0));
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
        (&["--tls-cert", path, "--tls-key", path][..], 2, "give an address with --dot".to_owned()),
        (&["--dot", "127.0.0.1:0", "--tls-cert", path], 2, "--tls-key".to_owned()),
        (
            &["--dot", "127.0.0.1:0", "--tls-cert", path, "--tls-key", path],
            2,
            "--tls-cert, --tls-key: no usable certificate".to_owned(),
        ),
        (&["--doq", "192.0.2.1:853"], 3, "cannot listen on 192.0.2.1:853 (DoQ)".to_owned()),
        (&["--connections", "0"], 2, "a number from 1 to 1000000".to_owned()),
        (&["--records", path], 2, format!("sextant auth: {path}, line 2: ")),
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
