//! The files and the page for other programs: each is there, can be read, and says what the record says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use super::running::{Background, alone, auth, command, sextant, stderr};

fn json(octets: &[u8]) -> Value {
    serde_json::from_slice(octets)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(octets)))
}

/// What a command printed as JSON.
fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// A server that answers by the last part of the name: of ten queries one is lost, one fails, one has no
/// record, one is answered when it is too late, and the others carry an address.
struct Moody {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The timeout of the Measurer, and when the late answers come.
const TIMEOUT_S: &str = "0.3";
const LATE: Duration = Duration::from_millis(500);

impl Moody {
    fn start() -> Self {
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || Self::serve(&socket, &told));
        Self { address, stop, thread: Some(thread) }
    }

    fn serve(socket: &UdpSocket, stop: &AtomicBool) {
        let mut late: Vec<(Instant, Vec<u8>, SocketAddr)> = Vec::new();
        let mut query = [0; 512];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = socket.recv_from(&mut query) {
                // 12 octets of header, the length of the label, 16 digits and hyphens: the last digit.
                let digit = query[12 + 15] - b'0';
                match digit {
                    2 => {}
                    6 => late.push((Instant::now() + LATE, reply(&query[..length], digit), from)),
                    _ => drop(socket.send_to(&reply(&query[..length], digit), from)),
                }
            }
            let due = late.iter().take_while(|(at, ..)| *at <= Instant::now()).count();
            late.drain(..due).for_each(|(_, reply, to)| drop(socket.send_to(&reply, to)));
        }
    }
}

impl Drop for Moody {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// 4 is a SERVFAIL, 8 has no answer record, all others have the AAAA that the name asks for.
fn reply(query: &[u8], digit: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    match digit {
        4 => reply[3] = 2,
        8 => {}
        _ => {
            reply[7] = 1;
            let label = std::str::from_utf8(&query[13..28]).unwrap();
            let address = label.split('-').map(|part| part.parse::<u8>().unwrap());
            reply.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
            reply.extend([0x20, 1, 0xd, 0xb8, 0, 0x64, 0, 0, 0, 0, 0, 0]);
            reply.extend(address);
        }
    }
    reply
}

/// All rows of a file with a header.
fn rows(path: &Path) -> Vec<csv::StringRecord> {
    csv::Reader::from_path(path).unwrap().records().map(Result::unwrap).collect()
}

/// The latencies in each interval of an HDR log.
fn intervals_of(path: &Path) -> Vec<f64> {
    let octets = std::fs::read(path).unwrap();
    let entries: Vec<f64> = IntervalLogIterator::new(&octets)
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval.duration().as_secs_f64()),
            _ => None,
        })
        .collect();
    entries
}

#[test]
fn every_file_says_what_the_record_says() {
    let _alone = alone();
    let server = Moody::start();
    let base = tempfile::tempdir().unwrap();
    let file = |name: &str| base.path().join(name);
    let at = |name: &str| file(name).to_str().unwrap().to_owned();
    let output = sextant(&[
        "trial",
        "--server",
        &server.address.to_string(),
        "--rate",
        "1000",
        "--duration",
        "1.1",
        "--json",
        "--timeout",
        TIMEOUT_S,
        "--threads",
        "2",
        "--compat-csv",
        &at("compat.csv"),
        "--queries",
        &at("queries.csv"),
        "--dns-metrics",
        &at("metrics.json"),
        "--hlog",
        &at("latency.hlog"),
        "--series",
        &at("series.csv"),
        "--interval",
        "0.25",
    ]);
    let trial = printed(&output);
    let of = |name: &str| number(&trial, name);
    assert_eq!(of("scheduled"), 1100);
    assert!(of("invalid") > 0 && of("late") > 0 && of("lost") > 0, "{trial}");

    let queries = rows(&file("queries.csv"));
    let count = |class: &str| queries.iter().filter(|row| &row[6] == class).count() as u64;
    assert_eq!(queries.len() as u64, of("scheduled"));
    for class in ["valid", "invalid", "late", "lost"] {
        assert_eq!(count(class), of(class), "{class}");
    }
    assert_eq!(count("unsent") + count("send_error"), of("scheduled") - of("sent"));
    let numbers: Vec<u64> = queries.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(numbers.into_iter().eq(0..1100));
    let slowest_ns =
        queries.iter().filter(|row| &row[6] == "valid").map(|row| row[8].parse::<u64>().unwrap()).max();
    let recorded_ns = trial.pointer("/latency_ns/max").unwrap().as_u64().unwrap();
    assert!(slowest_ns.unwrap().abs_diff(recorded_ns) <= recorded_ns / 500, "three digits of {slowest_ns:?}");

    check_compat(&file("compat.csv"), &trial, &server.address.to_string());

    let series = rows(&file("series.csv"));
    let sum = |column: usize| series.iter().map(|row| row[column].parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!(series.len(), 5, "four quarters of a second and a rest");
    assert_eq!((sum(1), sum(2), sum(3)), (of("sent"), of("valid"), of("scheduled") - of("valid")));

    let lengths = intervals_of(&file("latency.hlog"));
    assert_eq!(lengths.len(), 5);
    assert!((lengths.iter().sum::<f64>() - 1.1).abs() < 0.01, "{lengths:?}");

    check_metrics(&file("metrics.json"), &trial, 5);
    let left: Vec<_> =
        std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

/// By the rules that dns64perf++'s file goes by: see docs/outputs.md.
fn check_compat(path: &Path, trial: &Value, server: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let port = server.rsplit_once(':').unwrap().1;
    assert!(head.starts_with(&format!("dns64perf++ test parameters\nserver: ::1\nport: {port}\n")), "{head}");
    let mut lines = body.lines();
    assert_eq!(lines.next(), Some("query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]"));
    let (mut queries, mut received, mut answered) = (0, 0, 0);
    let mut threads = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(';').collect();
        let [name, thread, sent, arrived, is_received, is_answered, rtt] = cells[..] else {
            panic!("{line}")
        };
        assert!(name.starts_with("010-") && name.ends_with(".dns64perf.test."), "{line}");
        queries += 1;
        received += u64::from(is_received == "1");
        answered += u64::from(is_answered == "1");
        let (sent, arrived, rtt) =
            (sent.parse::<i64>().unwrap(), arrived.parse::<i64>().unwrap(), rtt.parse::<i64>().unwrap());
        let expected = if is_received == "1" { arrived - sent } else { -1 };
        assert_eq!(rtt, expected, "{line}");
        assert!(is_answered == "0" || rtt < 300_000_000, "{line}");
        threads.push(thread.to_owned());
    }
    assert!(threads.is_sorted() && threads.first() != threads.last());
    assert_eq!((queries, received), (number(trial, "scheduled"), number(trial, "answered")));
    // What is late by the schedule may be in time by the sending.
    let by_schedule = number(trial, "valid_compat");
    assert!((by_schedule..=by_schedule + number(trial, "late")).contains(&answered), "{answered} {trial}");
}

fn check_metrics(path: &Path, trial: &Value, periodic: usize) {
    let text = std::fs::read_to_string(path).unwrap();
    let objects: Vec<Value> = text.lines().map(|line| json(line.as_bytes())).collect();
    assert_eq!(objects[0]["type"], "header");
    let sum = objects.last().unwrap();
    assert_eq!(sum["type"], "stats_sum");
    assert!(objects.iter().all(|object| object["runid"] == sum["runid"]));
    let of_kind = |kind: &str| objects.iter().filter(|object| object["type"] == kind).collect::<Vec<_>>();
    let parts = of_kind("stats_periodic");
    assert_eq!(parts.len(), periodic);
    for name in ["queries", "responses", "timeouts"] {
        let total: u64 = parts.iter().map(|part| number(part, name)).sum();
        assert_eq!(total, number(sum, name), "{name}");
    }
    assert_eq!(number(sum, "queries"), number(trial, "sent"));
    assert_eq!(number(sum, "responses"), number(trial, "valid") + number(trial, "invalid"));
    assert_eq!(number(sum, "timeouts"), number(trial, "late") + number(trial, "lost"));
    let rcodes = sum["response_rcodes"].as_object().unwrap();
    assert_eq!(rcodes.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), number(trial, "answered"));
    assert_eq!(rcodes["SERVFAIL"], trial["invalid_reasons"]["SERVFAIL"]);
    let latency = &sum["response_latency"];
    let in_buckets: u64 =
        latency["buckets"].as_array().unwrap().iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
    assert_eq!(in_buckets, number(trial, "valid"));
}

#[test]
fn the_page_shows_a_trial_under_way() {
    let _alone = alone();
    let (_auth, server) = auth();
    let arguments = [
        "trial",
        "--server",
        &server,
        "--rate",
        "500",
        "--duration",
        "20",
        "--openmetrics",
        "[::1]:0",
        "--json",
    ];
    let (trial, line) = Background::start(command(&arguments), "metrics at http://");
    let address: SocketAddr = line["metrics at http://".len()..].split('/').next().unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    trial.signal("INT");
    let (_, out, _) = trial.end();
    let trial = json(out.as_bytes());
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(page.ends_with("# EOF\n"), "{page}");
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
    };
    let sent = value("sextant_queries_sent_total");
    assert!(sent >= 100.0 && sent <= number(&trial, "sent") as f64, "{sent}");
    assert!(value("sextant_answers_total{class=\"valid\"}") <= sent);
    assert!(value("sextant_latency_seconds_bucket{le=\"+Inf\"}") > 0.0);
    assert_eq!(value("sextant_latency_seconds_bucket{le=\"+Inf\"}"), value("sextant_latency_seconds_count"));
    assert_eq!((value("sextant_trial_rate_qps"), value("sextant_trials")), (500.0, 1.0));
    assert!(TcpStream::connect(address).is_err(), "it ends with the trial");
}

/// Lines on standard output come while it measures, before the result, and add up to its counts.
#[test]
fn each_second_has_a_line_and_a_page() {
    let _alone = alone();
    let server = Moody::start();
    let base = tempfile::tempdir().unwrap();
    let page = base.path().join("sextant.prom");
    let lines = base.path().join("seconds.jsonl");
    for to in ["-", lines.to_str().unwrap()] {
        let output = sextant(&[
            "trial",
            "--server",
            &server.address.to_string(),
            "--load",
            "ramp:100-1000",
            "--duration",
            "2.2",
            "--json",
            "--timeout",
            TIMEOUT_S,
            "--seconds",
            to,
            "--openmetrics-file",
            page.to_str().unwrap(),
        ]);
        let text = String::from_utf8(output.stdout).unwrap();
        let split = text.find('{').unwrap_or_else(|| panic!("{text}"));
        let (table, trial) = (&text[..split], json(&text.as_bytes()[split..]));
        let told: Vec<Value> = if to == "-" {
            let mut table = csv::Reader::from_reader(table.as_bytes());
            table.deserialize().map(|line| Value::Object(line.unwrap())).collect()
        } else {
            std::fs::read_to_string(&lines).unwrap().lines().map(|line| json(line.as_bytes())).collect()
        };
        assert!((3..=5).contains(&told.len()), "{told:?}");
        for name in ["sent", "valid", "invalid", "late", "lost"] {
            let sum: i64 = told.iter().map(|line| line[name].as_i64().unwrap()).sum();
            assert_eq!(sum, number(&trial, name) as i64, "{name} of {told:?}");
        }
        assert!(told[1]["sent"].as_i64() > told[0]["sent"].as_i64(), "the rate rises: {told:?}");
        assert!(told[0]["end_s"].as_f64().is_some_and(|end_s| (1.0..1.5).contains(&end_s)), "{told:?}");
        let metrics = std::fs::read_to_string(&page).unwrap();
        let sent = format!("sextant_queries_sent_total {}\n", number(&trial, "sent"));
        assert!(metrics.contains(&sent) && metrics.ends_with("# EOF\n"), "{metrics}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_loses_nothing() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let trial = |extra: &[&str]| {
        let arguments = ["trial", "--server", &server, "--rate", "200", "--duration", "0.3", "--json"];
        sextant(&[&arguments[..], extra].concat())
    };
    let nowhere = base.path().join("none/queries.csv").to_str().unwrap().to_owned();
    let output = trial(&["--queries", &nowhere]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("cannot write {nowhere}: ")) && text.lines().count() == 1, "{text}");
    assert!(output.stdout.is_empty(), "it is known before anything is measured");

    let series = base.path().join("series.csv").to_str().unwrap().to_owned();
    let output = trial(&["--compat-csv", "/dev/full", "--series", &series]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("cannot write /dev/full: No space left") && text.lines().count() == 1, "{text}");
    assert_eq!(number(&printed(&output), "scheduled"), 60, "the result comes all the same");
    assert_eq!(rows(Path::new(&series)).len(), 1, "and so does the other file");

    let taken = std::net::TcpListener::bind("[::1]:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = trial(&["--openmetrics", &address]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("cannot listen on {address}: ")) && text.lines().count() == 1, "{text}");
}

#[test]
fn outputs_that_cannot_be_are_refused() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let list = base.path().join("list.csv").to_str().unwrap().to_owned();
    for (options, reason) in [
        ("--queries list.txt", "must end in .csv or .parquet"),
        ("--interval 0.01", "from 0.1 to 86400"),
        ("--interval 1", "needs --series, --hlog or --dns-metrics"),
        ("--io kernel --series s.csv --interval 1", "--io kernel keeps no list of all queries"),
        ("--series same --hlog same", "same is named for two outputs"),
        (
            "--queries LIST.csv --rate 1000000 --duration 200 --names 0.0.0.0/0",
            "leave out --queries, --compat-csv and --interval (6103 MiB)",
        ),
    ] {
        let options = options.replace("LIST.csv", &list);
        let options: Vec<&str> = options.split(' ').collect();
        let rate = ["--rate", "10", "--duration", "1"];
        let rate = if options.contains(&"--rate") { &[][..] } else { &rate[..] };
        let output = sextant(&[&["trial", "--server", &server], rate, &options[..]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason), "'{reason}' is missing in: {text}");
    }
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}

/// Where it is built in, the file can be read; where not, the option says how to have it.
#[test]
fn parquet_is_written_or_said_to_be_missing() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("queries.parquet");
    let output = sextant(&[
        "trial",
        "--server",
        &server,
        "--rate",
        "500",
        "--duration",
        "0.4",
        "--json",
        "--queries",
        path.to_str().unwrap(),
    ]);
    if !cfg!(feature = "parquet") {
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("--features parquet"), "{}", stderr(&output));
        return;
    }
    assert_eq!(number(&printed(&output), "scheduled"), 200, "{}", stderr(&output));
    let octets = std::fs::read(&path).unwrap();
    assert!(octets.starts_with(b"PAR1") && octets.ends_with(b"PAR1"));
}

#[test]
fn a_search_numbers_the_files_of_its_trials() {
    let _alone = alone();
    let (_auth, server) = auth();
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name).to_str().unwrap().to_owned();
    let output = sextant(&[
        "search",
        "--server",
        &server,
        "--repetitions",
        "2",
        "--search",
        "fixed",
        "--max-rate",
        "400",
        "--duration",
        "0.5",
        "--json",
        "--out",
        &at("results"),
        "--queries",
        &at("queries.csv"),
        "--dns-metrics",
        &at("m.json"),
    ]);
    let results = printed(&output);
    let runs = results["runs"].as_array().unwrap();
    let searched = runs.iter().flat_map(|run| run["trials"].as_array().unwrap());
    let trials: Vec<&Value> =
        searched.chain(Some(&results["latency_trial"]).filter(|trial| !trial.is_null())).collect();
    assert!(!trials.is_empty());
    for (index, trial) in trials.iter().enumerate() {
        let queries = rows(Path::new(&at(&format!("queries-{:04}.csv", index + 1))));
        let valid = queries.iter().filter(|row| &row[6] == "valid").count() as u64;
        assert_eq!((queries.len() as u64, valid), (number(trial, "scheduled"), number(trial, "valid")));
        let metrics = std::fs::read_to_string(at(&format!("m-{:04}.json", index + 1))).unwrap();
        assert_eq!(
            number(&json(metrics.lines().last().unwrap().as_bytes()), "queries"),
            number(trial, "sent")
        );
    }
    assert!(!Path::new(&at(&format!("queries-{:04}.csv", trials.len() + 1))).exists());
}
