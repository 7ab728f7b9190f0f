//! A capture of the trial's packets, in which tshark counts.

use std::process::Command;
use std::time::Duration;

use super::super::running::{Background, alone, auth};
use super::super::transports::{is_answered, tried};
use super::{file, path, told};

/// The kernel hands packets to dumpcap within this time.
const SETTLE: Duration = Duration::from_secs(1);

#[test]
fn tshark_counts_the_same_queries() {
    if !testing::has_program("tshark", "tshark") {
        return;
    }
    if !sys::process::is_root() {
        return testing::skip("root", "only root may capture packets");
    }
    let _alone = alone();
    let (_auth, server) = auth();
    let port = server.rsplit(':').next().unwrap();
    let directory = tempfile::tempdir().unwrap();
    for transport in ["udp", "tcp"] {
        let capture = file(directory.path(), transport);
        let mut dumpcap = Command::new("dumpcap");
        let filter = format!("{transport} port {port}");
        dumpcap.env("PATH", path()).args(["-q", "-i", "lo", "-B", "64", "-f", &filter, "-w", &capture]);
        // It names the file once the device is open.
        let (dumpcap, _) = Background::start(dumpcap, "File:");
        let options: &[&str] = if transport == "tcp" { &["--queries-per-connection", "50"] } else { &[] };
        let trial = tried(&server, &[&["--transport", transport], options].concat());
        is_answered(&trial);
        std::thread::sleep(SETTLE);
        dumpcap.signal("INT");
        let (code, _, said) = dumpcap.end();
        assert_eq!(code, Some(0), "{said}");
        let count = |response| messages(&capture, &format!("{transport}.port=={port},dns"), response);
        // One more asked whether the server is there.
        assert_eq!((count(0), count(1)), (trial.sent + 1, trial.answered + 1), "{transport}: {said}");
    }
}

/// How many messages of a capture are queries (0) or responses (1). A packet may hold several.
fn messages(capture: &str, decode_as: &str, response: u8) -> u64 {
    let filter = format!("dns.flags.response == {response}");
    let text = told(
        "tshark",
        &["-n", "-r", capture, "-d", decode_as, "-Y", &filter, "-T", "fields", "-e", "dns.id"],
    );
    text.lines().map(|line| line.split(',').count() as u64).sum()
}
