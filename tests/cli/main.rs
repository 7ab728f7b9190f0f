//! The real `sextant` from outside: what it prints, how it ends, what it leaves behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod attribution;
mod auth;
mod bench;
mod campaign;
mod compare;
mod counters;
mod echo;
mod faults;
mod handshakes;
mod https;
mod import;
mod lab;
mod outputs;
mod page;
mod peers;
mod preflight;
mod replay;
mod requests;
mod running;
mod selftest;
mod standing;
mod terminal;
mod transfers;
mod transports;
mod trial;
mod two_hosts;
mod workload;

use running::{sextant, stderr};

#[test]
fn help_names_every_command_and_gives_examples() {
    let output = sextant(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for command in [
        "bench",
        "campaign",
        "trial",
        "search",
        "selftest",
        "auth",
        "preflight",
        "peers",
        "echo",
        "lab",
        "report",
        "compare",
        "convert",
    ] {
        assert!(text.contains(command), "{command} is missing in:\n{text}");
        let help = sextant(&[command, "--help"]);
        assert!(help.status.success() && help.stdout.len() > 200, "{command} --help");
    }
    assert!(text.contains("Examples:") && text.contains("Exit codes:"));
}

#[test]
fn bad_usage_ends_with_2_and_says_what_is_wrong() {
    let trial =
        |extra: &[&str]| sextant(&[&["trial", "--server", "[::1]:9", "--rate", "10"], extra].concat());
    for (output, reason) in [
        (sextant(&["trial", "--sever", "[::1]:9"]), "--server"),
        (trial(&["--prefix", "2001:db8:0:0:100::/96"]), "bits 64 to 71 must be zero"),
        (trial(&["--prefix", "2001:db8::/80"]), "not one of 32, 40, 48, 56, 64, 96"),
        (trial(&["--names", "10.0.0.1/8"]), "bits after the first 8 must be zero"),
        (trial(&["--suffix", "a..b"]), "1 to 63 characters"),
        (trial(&["--duration", "0"]), "from 0.001"),
        (trial(&["--io", "xpd"]), "possible values"),
        (sextant(&["trial", "--server", "[::1]:9", "--rate", "0"]), "from 1"),
        (sextant(&["bench", "--peer", "bnid"]), "there is no peer 'bnid'"),
        (sextant(&["bench", "--min-rate", "9", "--max-rate", "8"]), "--min-rate is above"),
        (sextant(&["bench", "--dut", "nowhere"]), "[ADDR]:PORT"),
        (sextant(&["bench", "--search", "verify", "--goals", "csit"]), "are for --search mlr"),
        (sextant(&["bench", "--goals", "csit", "--duration", "5"]), "the goals of csit fix the length"),
        (sextant(&["bench", "--goal", "los=1"]), "not one of loss"),
        (sextant(&["bench", "--goal", "initial=9,final=8"]), "must not exceed final"),
        (sextant(&["report", "/nonexistent"]), "/nonexistent"),
    ] {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(reason), "'{reason}' is missing in: {text}");
    }
}
