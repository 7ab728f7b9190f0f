//! `sextant trial` with other queries and other loads.

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Output, Stdio};

use serde_json::Value;

use super::running::{alone, auth, command, sextant, stderr};

fn trial(server: &str, options: &str) -> Output {
    let mut options: Vec<&str> = options.split_whitespace().collect();
    if !options.contains(&"--duration") {
        options.extend(["--duration", "0.3"]);
    }
    sextant(&[&["trial", "--server", server, "--json"], &options[..]].concat())
}

fn number(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap_or_else(|| panic!("{name} in {trial}"))
}

/// A busy machine may void a trial; that answers are wrong or unexpected it cannot do.
fn check(output: &Output, options: &str) -> Value {
    let trial: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{options}: {error}: {}", stderr(output)));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{options}: {trial}");
    assert_eq!((number(&trial, "invalid"), number(&trial, "unexpected")), (0, 0), "{options}: {trial}");
    assert_eq!(number(&trial, "duplicates"), 0, "{options}: {trial}");
    assert_eq!(number(&trial, "sent"), number(&trial, "answered") + number(&trial, "lost"), "{options}");
    trial
}

#[test]
fn every_workload_gets_its_answers() {
    let _alone = alone();
    let (_auth, server) = auth();
    for (options, rcode) in [
        ("--cached-share 40 --qtype a=1,aaaa=2", "NOERROR"),
        ("--cached-share 100 --hot-names 3 --threads 2", "NOERROR"),
        ("--zipf 1.1 --seed 4", "NOERROR"),
        ("--client-activity zipf:1.2 --threads 2", "NOERROR"),
        ("--random-labels", "NXDOMAIN"),
        ("--generate 010-{walk:000-255}-{draw:000-255}-{draw:000-255}.dns64perf.test --threads 2", "NOERROR"),
        ("--generate {random:20}.dns64perf.test --edns 1232 --padding 128", "NXDOMAIN"),
        ("--qtype mx,type65", "NOERROR"),
        ("--agent 2/3 --first-name 7", "NOERROR"),
        ("--validity response --qtype a", "NOERROR"),
        ("--dnssec-ok --cd --ad --nsid --padding 128 --ecs 198.18.0.0/15 --cookie", "NOERROR"),
    ] {
        let trial = check(&trial(&server, &format!("--rate 1000 {options}")), options);
        assert_eq!(number(&trial, "scheduled"), 300);
        assert_eq!(number(&trial["rcodes"], rcode), number(&trial, "answered"), "{options}: {trial}");
    }
}

#[test]
fn every_load_is_sent_in_full_and_called_by_its_name() {
    let _alone = alone();
    let (_auth, server) = auth();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rates.csv");
    std::fs::write(&file, "start_s,rate_qps\n0,1000\n0.1,0\n0.2,2000.5\n").unwrap();
    let recorded = format!("rates:{}", file.display());
    for (load, options, sent) in [
        ("poisson:5", "--rate 1000 --threads 2", 300),
        ("burst:16", "--rate 1000", 300),
        ("steps:500,1000,1500", "", 300),
        ("ramp:500-1500", "", 300),
        ("sine:500-1500/1", "--duration 1 --threads 2", 1000),
        (recorded.as_str(), "--duration 60", 301),
        ("experiments:4x2", "--duration 30", 512),
    ] {
        let trial = check(&trial(&server, &format!("--load {load} {options}")), load);
        assert_eq!((number(&trial, "sent"), trial["load"].as_str()), (sent, Some(load)), "{trial}");
        assert_eq!(trial["closed_loop"], load.starts_with("experiments"));
    }
    let window = check(&trial(&server, "--load closed:4"), "closed");
    assert_eq!(window["closed_loop"], true);
    assert!(number(&window, "valid") > 0 && number(&window, "scheduled") == number(&window, "sent"));
    let text = sextant(&["trial", "--server", &server, "--duration", "0.1", "--load", "closed:2"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("closed loop (closed:2)"));
}

#[test]
fn files_and_pipes_are_asked_over_and_over() {
    let _alone = alone();
    let (_auth, server) = auth();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let text = "; names\n010-000-000-001.dns64perf.test AAAA\n\nbroken\nelsewhere.test TYPE65\n";
    std::fs::write(path("text"), text).unwrap();
    let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x04none\x09dns64perf\x04test\0\0\x10\0\x01";
    std::fs::write(path("wire"), [&[0, message.len() as u8], &message[..]].concat()).unwrap();
    let output = trial(&server, &format!("--rate 1000 --input {} --shuffle", path("text")));
    let mixed = check(&output, "text");
    let half = |rcode: &str| number(&mixed["rcodes"], rcode);
    assert_eq!((half("NOERROR"), half("REFUSED")), (150, 150), "{mixed}");
    assert_eq!(mixed["validity"], "response", "nobody knows the answers to a file");
    assert!(stderr(&output).contains("line 4: a name without a query type"), "{}", stderr(&output));
    let wire = format!("--rate 1000 --input {} --input-format wire", path("wire"));
    assert_eq!(number(&check(&trial(&server, &wire), "wire")["rcodes"], "NXDOMAIN"), 300);

    let strict = trial(&server, &format!("--rate 1000 --input {} --strict-input", path("text")));
    assert_eq!(strict.status.code(), Some(2));
    assert!(stderr(&strict).contains("line 4"), "{}", stderr(&strict));

    // The second is what a shell's <(...) looks like: a pipe with a name, which changes while it is read.
    for input in ["-", "/dev/stdin"] {
        let arguments =
            ["trial", "--server", &server, "--rate", "500", "--duration", "0.2", "--json", "--input", input];
        let mut child = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"010-000-000-002.dns64perf.test A\n").unwrap();
        let piped = check(&child.wait_with_output().unwrap(), input);
        assert_eq!(number(&piped, "valid"), 100);
    }
}

#[test]
fn recorded_queries_are_asked_at_their_times() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("timed");
    // Two heaps of 50, a second apart, and a query between them; types as words and as numbers.
    let mut text = String::from("# a capture\n");
    for (at, queries) in [("1700000000.25", 50), ("1700000000.75", 1), ("1700000001.25", 50)] {
        for query in 0..queries {
            text += &format!("{at} 010-000-000-{query:03}.dns64perf.test {}\n", ["AAAA", "28"][query % 2]);
        }
    }
    std::fs::write(&file, text).unwrap();
    let input = format!("--input {} --input-format timed", file.display());
    for (options, length_s) in [("", 1.0), ("--speed 4 --threads 2", 0.25), ("--duration 0.6", 0.6)] {
        let duration = if options.contains("--duration") { "" } else { "--duration 60" };
        let trial = check(&trial(&server, &format!("{input} {options} {duration}")), options);
        let sent = if length_s == 0.6 { 51 } else { 101 };
        assert_eq!((number(&trial, "scheduled"), number(&trial, "sent")), (sent, sent), "{options}: {trial}");
        let took_s = trial["duration_s"].as_f64().unwrap();
        assert!((took_s - length_s).abs() < 0.001, "{options}: {took_s}");
        if length_s > 0.9 {
            let most = trial.pointer("/windows/ms100/most").and_then(Value::as_u64);
            assert!(most.is_some_and(|most| (45..=51).contains(&most)), "a heap stays one: {trial}");
        }
    }
    for (options, reason) in [
        ("--rate 5", "a replay has its own times"),
        ("--load poisson", "a replay has its own times"),
        ("--shuffle", "in the order of its times"),
        ("--speed 0", "from 0.001"),
    ] {
        let output = trial(&server, &format!("{input} {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}");
        assert!(stderr(&output).contains(reason), "{options}: {}", stderr(&output));
    }
}

/// Returns queries as responses until it hears nothing for a while; tells how many came from each source.
fn count_sources(socket: &UdpSocket) -> HashMap<SocketAddr, u64> {
    let (mut counts, mut buffer) = (HashMap::new(), [0; 512]);
    while let Ok((octets, source)) = socket.recv_from(&mut buffer) {
        *counts.entry(source).or_default() += 1;
        buffer[2] |= 0x80;
        let _ = socket.send_to(&buffer[..octets], source);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    }
    counts
}

/// Answers queries by repeating them until it hears nothing for a while; returns their names, in lower case.
fn names_asked(socket: &UdpSocket) -> Vec<String> {
    let (mut names, mut buffer) = (Vec::new(), [0; 512]);
    while let Ok((octets, source)) = socket.recv_from(&mut buffer) {
        let (name, _) = dns64::wire::Name::parse(&buffer[..octets], 12).unwrap();
        names.push(name.to_string());
        buffer[2] |= 0x80;
        let _ = socket.send_to(&buffer[..octets], source);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    }
    names
}

#[test]
fn a_server_is_asked_what_the_templates_say() {
    let _alone = alone();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let server = socket.local_addr().unwrap().to_string();
    let asked = std::thread::spawn(move || names_asked(&socket));
    let arguments =
        ["trial", "--server", &server, "--json", "--rate", "4100", "--duration", "1", "--threads"];
    let templates = ["2", "--first-name", "0", "--generate", "3={walk:0001-2460}.a.test", "--generate"];
    let output = sextant(&[&arguments[..], &templates, &["2={random:13}.b.test TXT"]].concat());
    let trial = check(&output, "templates");
    assert_eq!((number(&trial, "sent"), trial["validity"].as_str()), (4100, Some("response")), "{trial}");
    let names = asked.join().unwrap();
    let of = |zone: &str| {
        let mut names: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(zone)).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let walked: Vec<String> = (1..=2460).map(|number| format!("{number:04}")).collect();
    assert_eq!(of(".a.test."), walked);
    let random = of(".b.test.");
    // The look for the server before the trial asks a question, too.
    assert!(
        [1640, 1641].contains(&random.len()) && random.iter().all(|label| label.len() == 13),
        "{random:?}"
    );
}

#[test]
fn a_server_sees_the_clients_in_the_shares_of_their_law() {
    let _alone = alone();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let server = socket.local_addr().unwrap().to_string();
    let counting = std::thread::spawn(move || count_sources(&socket));
    let options = "--rate 10000 --duration 0.5 --ports 20 --source 127.0.1.0/24 --client-activity zipf:1 --validity response";
    let trial = check(&trial(&server, options), options);
    // A source with one query is that of the look for the server before the trial.
    let mut counts: Vec<u64> = counting.join().unwrap().into_values().filter(|&count| count > 1).collect();
    counts.sort_unstable();
    assert_eq!((number(&trial, "answered"), counts.len()), (5000, 20), "{counts:?}");
    // The shares are 1/k of 3.598, give or take four standard deviations of the count.
    for (rank, count) in counts.iter().rev().enumerate().filter(|(rank, _)| [0, 1, 9].contains(rank)) {
        let expected = 5000.0 / 3.598 / (rank as f64 + 1.0);
        assert!((*count as f64 - expected).abs() < 4.0 * expected.sqrt(), "{rank}: {count} of {expected}");
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let _alone = alone();
    let (_auth, server) = auth();
    for (options, reason) in [
        ("", "--load constant needs a --rate"),
        ("--load closed:4 --rate 10", "takes no --rate: answers set its pace"),
        ("--load sine:1-10", "write sine:LOW-HIGH/SECONDS"),
        ("--load rates:/nonexistent", "cannot read rates from /nonexistent"),
        ("--load ramp:1-10 --rate 10", "takes no --rate: it has its own rates"),
        ("--load waves", "is no load model"),
        ("--load experiments:3", "power of two"),
        ("--rate 10 --cached-share 101", "101 is not in 0..=100"),
        ("--rate 10 --qtype quad", "'quad' is no query type"),
        ("--rate 10 --client-activity zipf:0", "write in-turn, or zipf:S"),
        ("--load closed:2 --client-activity zipf:1", "in a closed loop"),
        ("--rate 10 --zipf 0", "must be a number from 0.01 to 20"),
        ("--rate 10 --zipf 1 --cached-share 5", "cannot be used with"),
        ("--rate 10 --random-labels --input x", "cannot be used with"),
        ("--rate 10 --generate a.test --zipf 1", "cannot be used with"),
        ("--rate 10 --generate 5=a.{wlk:1-3}.test", "character 5: {wlk:1-3} is no placeholder"),
        ("--rate 10 --generate 9000=a --generate 2000=b", "--generate: the shares add up to 11000"),
        ("--rate 10 --shuffle", "--input"),
        ("--rate 10 --agent 2/2", "same --first-name"),
        ("--rate 10 --agent 3/2 --first-name 0", "write K/N"),
        ("--rate 10 --names 10.0.0.0/24 --first-name 256", "numbered from 0 to 255"),
        ("--rate 10 --agent 1/2 --first-name 0 --input x", "cannot be used with"),
        ("--rate 10 --hot-names 3", "--cached-share"),
        ("--rate 10 --aaaa-prefix 2001:db8::/96", "--aaaa-share"),
        ("--rate 10 --input x --input-format wire --nsid", "sent as they stand"),
        ("--load experiments:4x3 --threads 2", "use a multiple of 2"),
        ("--rate 10 --ecs 10.0.0.0", "write ADDRESS/LENGTH"),
        ("--rate 10 --padding 0", "0 is not in 1..=468"),
        ("--rate 10 --input /nonexistent", "cannot read queries from /nonexistent"),
        ("--rate 10 --input /", "cannot read queries from /"),
        ("--rate 10 --input /dev/null", "holds no query"),
        ("--rate 1000 --cached-share 50 --names 10.0.0.0/24", "256 names but the trial asks 556"),
        ("--rate 1000000 --zipf 1 --ports 1", "use --ports 5 or more"),
    ] {
        let output = trial(&server, options);
        assert_eq!(output.status.code(), Some(2), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    for (command, options, reason) in [
        ("search", "--server [::1]:9 --load closed:3", "no rate to search for"),
        ("bench", "--load steps:1,2", "no rate to search for"),
        ("search", "--server [::1]:9 --load sine:1-2/3", "no rate to search for"),
        ("selftest", "--rate 10 --load poisson", "leave out --load"),
        ("selftest", "--rate 10 --client-activity zipf:1", "leave out --client-activity"),
        ("selftest", "--rate 10 --zipf 1", "leave out --zipf"),
        ("selftest", "--rate 10 --generate a.test", "leave out --generate"),
        ("bench", "--cached-share 20 --ttl 3", "use --ttl 12 or more"),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let output = sextant(&[&[command], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
}
