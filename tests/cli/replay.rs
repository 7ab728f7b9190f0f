//! `sextant convert` and `sextant trial --input CAPTURE`: a capture made here is asked again.

use std::path::{Path, PathBuf};

use record::{Outcome, Trial};

use super::running::{alone, auth, sextant, stderr, stdout};

/// The ports of the packets here.
const DNS_PORT: u16 = 53;
const CLIENT_PORT: u16 = 40_000;
/// Link types (`LINKTYPE_`): raw IP, and IEEE 802.11, which is not read.
const RAW: u8 = 101;
const WIRELESS: u8 = 105;

/// A question for the AuthDNS's name number `n` from client `client`, in an IPv4 packet from one port to
/// another.
fn packet(n: u8, client: u8, [from, to]: [u16; 2]) -> Vec<u8> {
    let mut message = vec![n, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 15];
    message.extend(format!("010-000-000-{n:03}").bytes());
    message.extend(b"\x09dns64perf\x04test\0\0\x1c\0\x01");
    let mut udp = Vec::new();
    for number in [from, to, 8 + message.len() as u16, 0] {
        udp.extend(number.to_be_bytes());
    }
    udp.extend(message);
    let mut packet = vec![0x45, 0];
    packet.extend((20 + udp.len() as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, client, 198, 51, 100, 1]);
    packet.extend(udp);
    packet
}

/// A capture of these packets, a packet every 5 ms.
fn file(directory: &Path, link_type: u8, packets: &[Vec<u8>]) -> PathBuf {
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, link_type, 0, 0, 0]);
    for (octets, micros) in packets.iter().zip((0..).step_by(5000)) {
        let length = octets.len() as u32;
        for number in [1_700_000_000 + micros / 1_000_000, micros % 1_000_000, length, length] {
            file.extend(u32::to_le_bytes(number));
        }
        file.extend(octets);
    }
    let path = directory.join("capture.pcap");
    std::fs::write(&path, file).unwrap();
    path
}

/// Queries of 5 clients, so many.
fn queries(number: u8) -> Vec<Vec<u8>> {
    (0..number).map(|n| packet(n, n % 5, [CLIENT_PORT, DNS_PORT])).collect()
}

/// A capture of raw IP with 200 queries of 5 clients within a second, and the begin of a packet of another
/// protocol.
fn capture(directory: &Path) -> PathBuf {
    let mut packets = queries(200);
    packets.push(vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    file(directory, RAW, &packets)
}

/// That this command line is bad usage, for a reason in one line.
fn refused(arguments: &[&str], reason: &str) {
    let output = sextant(arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(reason) && text.lines().count() == 1, "'{reason}' is missing in: {text}");
}

fn tried(server: &str, file: &Path, options: &[&str]) -> Trial {
    let fixed = ["trial", "--server", server, "--json", "--input", file.to_str().unwrap()];
    let output = sextant(&[&fixed, options].concat());
    let trial: Trial =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(trial.sent, trial.answered + trial.lost);
    assert_eq!(trial.losses.values().sum::<u64>(), trial.scheduled - trial.valid);
    assert_eq!(trial.load.to_string(), "replay");
    // On a busy machine some may be late.
    assert!(trial.outcome == Outcome::Pass || trial.void.is_some() || trial.late > 0, "{:?}", trial.cause);
    trial
}

#[test]
fn a_capture_is_asked_again_over_datagrams_and_connections() {
    let _alone = alone();
    let (_auth, server) = auth();
    let directory = tempfile::tempdir().unwrap();
    let file = capture(directory.path());
    let trial = tried(&server, &file, &["--threads", "2"]);
    assert_eq!((trial.scheduled, trial.answered, trial.invalid), (200, 200, 0));
    assert!((trial.duration_s - 0.995).abs() < 1e-6, "{}", trial.duration_s);
    let replay = trial.replay.unwrap();
    assert_eq!((replay.recorded_queries, replay.recorded_clients, replay.clients), (200, 5, 5));
    assert_eq!(replay.left_out, [("other_traffic".to_owned(), 1)].into());

    let faster = tried(&server, &file, &["--speed", "4", "--clients", "2", "--transport", "tcp"]);
    assert_eq!((faster.scheduled, faster.answered), (80, 80), "{:?}", faster.losses);
    assert!(faster.duration_s < 0.25, "{}", faster.duration_s);
    assert_eq!(faster.connections.unwrap().opened, 2, "a connection for each client");
    assert_eq!(faster.replay.unwrap().clients, 2);
}

#[test]
fn a_converted_capture_is_the_same_and_says_what_is_in_it() {
    let _alone = alone();
    let (_auth, server) = auth();
    let directory = tempfile::tempdir().unwrap();
    let (file, converted) = (capture(directory.path()), directory.path().join("capture.sxt"));
    let (from, to) = (file.to_str().unwrap(), converted.to_str().unwrap());
    let output = sextant(&["convert", from, to]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("200 queries of 5 clients") && text.contains("left out: other traffic 1"),
        "{text}"
    );
    let trial = tried(&server, &converted, &["--duration", "0.5"]);
    assert_eq!((trial.scheduled, trial.answered), (100, 100));
    assert_eq!(trial.replay.unwrap().left_out, [("other_traffic".to_owned(), 1)].into());
    let again = sextant(&["convert", from, to]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("cannot write"), "{}", stderr(&again));
}

#[test]
fn captures_that_cannot_be_used_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = capture(directory.path());
    let whole = std::fs::read(&file).unwrap();
    let path = file.to_str().unwrap();
    let trial = |options: &[&str], reason: &str| {
        refused(&[&["trial", "--server", "[::1]:9", "--input", path], options].concat(), reason);
    };
    trial(&["--rate", "10"], "--rate: a replay has its own times");
    trial(&["--shuffle"], "--shuffle: a replay asks in the order of its times");
    trial(&["--ports", "3"], "--ports: the clients of a capture have a socket each");
    trial(&["--nsid"], "are sent as they stand");
    trial(&["--input-format", "text", "--rate", "1", "--clients", "3"], "--clients is for captures");
    refused(&["search", "--server", "[::1]:9", "--input", path], "a replay has no rate to search for");

    std::fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    trial(&["--strict-input"], "after 200 packets: the file ends within a packet or block");
    let converted = directory.path().join("capture.sxt");
    let to = converted.to_str().unwrap();
    refused(&["convert", "--strict-input", path, to], "the file ends within a packet or block");
    assert!(!converted.exists(), "nothing is left behind");
    std::fs::write(&file, &whole[..24]).unwrap();
    trial(&[], "the capture holds no DNS query");
    std::fs::write(&file, "www.example.com A\n").unwrap();
    trial(&["--input-format", "capture"], "no pcap or pcapng file");
    refused(&["convert", path, to], "no pcap or pcapng file");
}

#[test]
fn captures_without_a_query_say_what_they_hold_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let answers: Vec<_> = (0..7).map(|n| packet(n, 1, [DNS_PORT, CLIENT_PORT])).collect();
    let fragments: Vec<_> = queries(7)
        .into_iter()
        .zip([0x20, 0].into_iter().cycle())
        .map(|(mut packet, more)| {
            // The first of a datagram has the flag that more follow, the others have an offset.
            packet[6] = more;
            packet[7] = u8::from(more == 0);
            packet
        })
        .collect();
    for (link_type, packets, held, advice) in [
        (WIRELESS, queries(7), "unknown link type 7", "record Ethernet, Linux cooked packets"),
        (RAW, fragments, "fragments 7", "fragments are not put together, record where packets are whole"),
        (RAW, answers, "responses 7", "record the queries, too (tcpdump 'port 53')"),
    ] {
        let path = file(directory.path(), link_type, &packets);
        let (path, to) = (path.to_str().unwrap(), directory.path().join("capture.sxt"));
        let reason = format!("the capture holds no DNS query, {held}: {advice}");
        refused(&["trial", "--server", "[::1]:9", "--input", path], &reason);
        refused(&["convert", path, to.to_str().unwrap()], &reason);
        assert!(!to.exists(), "nothing is left behind");
    }
}
