//! An IPv6-only client fetches a page from an IPv4-only server, through dns64d and tayga.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Stdio};

/// The exit code with which the demonstration says that this machine cannot run it.
const EXIT_UNFIT: i32 = 3;

#[test]
fn an_ipv6_only_client_fetches_a_page_from_an_ipv4_only_server() {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/nat64.sh"));
    command.arg(env!("CARGO_BIN_EXE_dns64d")).stdin(Stdio::null());
    sys::process::die_with_parent(&mut command);
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(EXIT_UNFIT) {
        let reason = words.lines().find(|line| line.starts_with("SKIPPED: "));
        testing::skip("demo", reason.unwrap_or_else(|| panic!("no reason: {words}")));
        return;
    }
    assert!(output.status.success(), "{words}{}", String::from_utf8_lossy(&output.stderr));
    assert!(words.contains("web.example AAAA 2001:db8:64::c633:6402"), "{words}");
    assert!(words.contains("Hello from an IPv4-only server."), "{words}");
    assert!(words.contains("The server saw an IPv4 client: 203.0.113."), "{words}");
}
