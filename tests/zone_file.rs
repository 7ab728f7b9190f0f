//! The exported zone in real servers: what they answer from the file is what the AuthDNS answers from the
//! rule.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use authdns::{Transport, Zone, ZoneConfig};
use dns64::names::{LABEL_LENGTH, write_label};
use dns64::wire::Name;
use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Rtype};
use domain::rdata::AllRecordData;
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{self, Placement, Probe, RunningPeer};
use record::random::Sequence;

const SEXTANT: &str = env!("CARGO_BIN_EXE_sextant");
const SUFFIX: &str = "dns64perf.test";
const NAMES: &str = "10.0.0.0/22";
const QUESTIONS: usize = 400;

fn config(listen: SocketAddr) -> ZoneConfig {
    ZoneConfig {
        names: Some(NAMES.parse().unwrap()),
        aaaa_share_percent: 50,
        ns_ipv4: match listen {
            SocketAddr::V4(v4) => Some(*v4.ip()),
            SocketAddr::V6(_) => None,
        },
        ns_ipv6: None,
        negative_ttl_s: 17,
        ..ZoneConfig::default()
    }
}

/// Exports with the real program; the directory is open to the servers' user.
fn export(directory: &Path, server: &str, listen: SocketAddr) -> String {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(SEXTANT)
        .args(["zone", "--names", NAMES, "--aaaa-share", "50", "--negative-ttl", "17"])
        .args(["--for", server, "--listen", &listen.to_string(), "--workers", "1", "--out"])
        .arg(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn start(server: &str, directory: &Path, listen: SocketAddr) -> RunningPeer {
    let settings = ZoneSettings {
        listen: vec![listen],
        zone: SUFFIX.into(),
        zone_file: directory.join(format!("{SUFFIX}.zone")),
        workers: 1,
        directory: directory.to_path_buf(),
        device: None,
        buffer_octets: 1 << 20,
        rule: Vec::new(),
        user: ("0".into(), "0".into()),
    };
    let place = Placement {
        listen,
        cores: Vec::new(),
        namespace: None,
        asked_from: None,
        as_root: false,
        patience: Duration::from_secs(30),
    };
    let probe = Probe::a(Ipv4Addr::new(10, 0, 0, 1), &Name::from_text(SUFFIX).unwrap()).unwrap();
    let server = authoritative::find(server).unwrap();
    authoritative::start(server, &place, settings, &probe, &AtomicBool::new(false)).unwrap()
}

/// What of an answer must be the same: RCODE, AA, the answer's records, and in negative answers the SOA
/// record.
#[derive(Debug, PartialEq)]
struct Meaning {
    rcode: Rcode,
    authoritative: bool,
    answer: Vec<String>,
    soa: Vec<String>,
}

impl Meaning {
    fn of(octets: &[u8]) -> Self {
        let message = Message::from_octets(octets).unwrap();
        let text = |record: domain::base::ParsedRecord<'_, &[u8]>| {
            let record = record.into_record::<AllRecordData<_, _>>().unwrap().unwrap();
            format!("{} {} {}", record.owner(), record.ttl().as_secs(), record.data()).to_lowercase()
        };
        let mut answer: Vec<String> = message.answer().unwrap().map(|r| text(r.unwrap())).collect();
        answer.sort();
        let authority = message.authority().unwrap().map(Result::unwrap);
        let soa = authority.filter(|record| record.rtype() == Rtype::SOA && answer.is_empty()).map(text);
        Self {
            rcode: message.header().rcode(),
            authoritative: message.header().aa(),
            soa: soa.collect(),
            answer,
        }
    }
}

fn query(name: &str, rtype: Rtype, id: u16) -> Vec<u8> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    let mut question = message.question();
    question.push((domain::base::Name::<Vec<u8>>::vec_from_str(name).unwrap(), rtype)).unwrap();
    question.finish()
}

fn ask(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send(query).unwrap();
    let mut reply = vec![0; 4096];
    let length = socket.recv(&mut reply).unwrap();
    reply.truncate(length);
    reply
}

/// Names of the zone, beside it and below it.
fn name(random: &mut Sequence) -> String {
    // A quarter of them is not in the range.
    let address = Ipv4Addr::from_bits(0x0a00_0000 + (random.bits() % 1280) as u32);
    let mut label = [0; LABEL_LENGTH];
    write_label(address, &mut label);
    let label = String::from_utf8_lossy(&label).into_owned();
    match random.bits() % 10 {
        0 => SUFFIX.into(),
        1 => format!("ns.{SUFFIX}"),
        2 => format!("www.{SUFFIX}"),
        3 => format!("{label}.{}", SUFFIX.to_uppercase()),
        _ => format!("{label}.{SUFFIX}"),
    }
}

fn the_file_answers_as_the_rule(server: &str) {
    if let Err(error) = peers::locate(authoritative::find(server).unwrap()) {
        testing::skip(&format!("peer {server}"), error);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let listen = peers::free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
    let told = export(directory.path(), server, listen);
    assert!(told.contains("Start it with:\n"), "{told}");
    let running = start(server, directory.path(), listen);
    let zone = Zone::new(config(listen)).unwrap();
    let mut random = Sequence::new(4, 0);
    for id in 0..QUESTIONS {
        let types = [Rtype::A, Rtype::AAAA, Rtype::MX, Rtype::TXT, Rtype::SOA, Rtype::NS];
        let rtype = types[(random.bits() % types.len() as u64) as usize];
        let (name, mut out) = (name(&mut random), vec![0; 65_535]);
        let query = query(&name, rtype, id as u16);
        let length = zone.answer(&query, Transport::Udp, &mut out).octets;
        let (ours, theirs) = (Meaning::of(&out[..length]), Meaning::of(&ask(listen, &query)));
        assert_eq!(ours, theirs, "{server}: {name} {rtype}");
    }
    running.stop();
}

#[test]
fn nsd_answers_as_the_rule() {
    the_file_answers_as_the_rule("nsd");
}

#[test]
fn knot_answers_as_the_rule() {
    the_file_answers_as_the_rule("knot");
}

#[test]
fn bind_answers_as_the_rule() {
    the_file_answers_as_the_rule("bind");
}

#[test]
fn yadifa_answers_as_the_rule() {
    the_file_answers_as_the_rule("yadifa");
}

/// The configuration that users get is one that the server's own checker takes, and so is the zone.
#[test]
fn the_servers_checkers_take_files_and_configurations() {
    let listen: SocketAddr = "127.0.0.1:5399".parse().unwrap();
    let checks: [(&str, &str, &[&str]); 6] = [
        ("nsd", "nsd-checkconf", &["{DIR}/nsd.conf"]),
        ("nsd", "nsd-checkzone", &[SUFFIX, "{DIR}/dns64perf.test.zone"]),
        ("bind", "named-checkconf", &["{DIR}/named.conf"]),
        ("bind", "named-checkzone", &[SUFFIX, "{DIR}/dns64perf.test.zone"]),
        ("knot", "knotc", &["-c", "{DIR}/knot.conf", "conf-check"]),
        ("knot", "kzonecheck", &["-o", SUFFIX, "{DIR}/dns64perf.test.zone"]),
    ];
    for (server, program, arguments) in checks {
        let directory = tempfile::tempdir().unwrap();
        export(directory.path(), server, listen);
        let place = directory.path().display().to_string();
        let arguments = arguments.iter().map(|argument| argument.replace("{DIR}", &place));
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        match Command::new(program).env("PATH", path).args(arguments).output() {
            Ok(output) => assert!(output.status.success(), "{program}: {output:?}"),
            Err(error) => testing::skip(&format!("program {program}"), format!("{program}: {error}")),
        }
    }
}

#[test]
fn what_cannot_be_written_is_told_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("zone");
    for (arguments, code, reason) in [
        (&["--names", "0.0.0.0/0"][..], 3, "4,294,967,296 names make a file of about "),
        (&["--names", "10.0.0.0/30", "--for", "knot-xdp"], 2, "--device"),
        (&["--names", "10.0.0.0/30", "--suffix", "a..b"], 2, "suffix 'a..b'"),
        (&["--names", "10.0.0.0/30", "--for", "tinydns"], 2, "tinydns"),
    ] {
        let output =
            Command::new(SEXTANT).arg("zone").args(arguments).arg("--out").arg(&out).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if arguments[1] == "0.0.0.0/0" && output.status.success() {
            testing::skip("full disk", "there is room for 4 billion names here");
            continue;
        }
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(reason), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("zone");
    let mut child = Command::new(SEXTANT)
        .args(["zone", "--names", "10.0.0.0/8", "--out"])
        .arg(&out)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It is at work as soon as its temporary file is there.
    for _ in 0..500 {
        if fs::read_dir(directory.path()).unwrap().count() > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    sys::process::terminate(child.id()).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
