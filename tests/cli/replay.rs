//! `sextant convert` and `sextant trial --input CAPTURE`: a capture made here is asked again.

use std::path::{Path, PathBuf};

use record::{Outcome, Trial};

use super::running::{alone, auth, sextant, stderr, stdout};

/// A query for the AuthDNS's name number `n` from client `client`, in an IPv4 packet.
fn packet(n: u8, client: u8) -> Vec<u8> {
    let mut message = vec![n, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 15];
    message.extend(format!("010-000-000-{n:03}").bytes());
    message.extend(b"\x09dns64perf\x04test\0\0\x1c\0\x01");
    let mut udp = Vec::new();
    for number in [40_000, 53, 8 + message.len() as u16, 0] {
        udp.extend(number.to_be_bytes());
    }
    udp.extend(message);
    let mut packet = vec![0x45, 0];
    packet.extend((20 + udp.len() as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, client, 198, 51, 100, 1]);
    packet.extend(udp);
    packet
}

/// A capture of raw IP with 200 queries of 5 clients within a second, and the begin of a packet of another
/// protocol.
fn capture(directory: &Path) -> PathBuf {
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0]);
    let mut add = |micros: u32, octets: &[u8]| {
        let length = octets.len() as u32;
        for number in [1_700_000_000 + micros / 1_000_000, micros % 1_000_000, length, length] {
            file.extend(number.to_le_bytes());
        }
        file.extend(octets);
    };
    for n in 0..200u8 {
        add(u32::from(n) * 5000, &packet(n, n % 5));
    }
    add(999_000, &[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    let path = directory.join("capture.pcap");
    std::fs::write(&path, file).unwrap();
    path
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
    let refused = |arguments: &[&str], reason: &str| {
        let output = sextant(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason) && text.lines().count() == 1, "'{reason}' is missing in: {text}");
    };
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
