//! `sextant trial` over HTTPS, against dns64d.

use std::process::Command;

use super::running::{Background, alone, auth, free_port, sextant, stderr};
use super::transports::{NAME, certificate, is_answered, tried};

#[test]
fn dns64d_answers_over_https_and_its_path_is_asked_for() {
    let _alone = alone();
    let (_auth, upstream) = auth();
    let base = tempfile::tempdir().unwrap();
    certificate(base.path());
    let (port, config, path) = (free_port(), base.path().join("dns64d.toml"), base.path().display());
    let text = format!(
        "listen = ['https://[::1]:{port}']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\n\
         [tls]\ncertificate = '{path}/cert.pem'\nkey = '{path}/key.pem'\nhttps_path = '/ask'\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    let (_dns64d, _) = Background::start(dns64d, "event=ready");
    let (server, authority) = (format!("[::1]:{port}"), format!("{path}/cert.pem"));
    let doh = ["--transport", "doh", "--connections", "8", "--tls-name", NAME, "--tls-ca", &authority];
    for method in ["get", "post"] {
        let trial = tried(&server, &[&doh[..], &["--doh-path", "/ask", "--doh-method", method]].concat());
        is_answered(&trial);
        let seen = trial.connections.unwrap();
        assert_eq!((seen.opened, seen.opened_in_trial, seen.closed_by_server), (8, 0, 0));
        let request = format!("{} https://{NAME}:{port}/ask", method.to_uppercase());
        assert_eq!((seen.transport.protocol.as_str(), seen.transport.request), ("doh", request));
        let longest = [&seen.handshake_ns, &seen.connect_ns].map(|times| times.as_ref().unwrap().max);
        assert!(longest.iter().all(|&ns| ns > 0) && seen.refusals.is_empty());
    }
    let others =
        ["--tls-resumption", "--queries-per-connection", "25", "--one-at-a-time", "--doh-path", "/ask"];
    let trial = tried(&server, &[&doh[..], &others].concat());
    is_answered(&trial);
    let seen = trial.connections.unwrap();
    assert_eq!(seen.resumed, seen.opened_in_trial);
    assert!((40..=48).contains(&seen.opened), "{}", seen.opened);

    let output = sextant(&["trial", "--server", &server, "--rate", "10", "--transport", "doh"]);
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("but status 404: is the path of --doh-path right?"), "{said}");
}

#[test]
fn a_server_of_tls_alone_is_said_in_one_line() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    certificate(base.path());
    let (port, config, path) = (free_port(), base.path().join("dns64d.toml"), base.path().display());
    let text = format!(
        "listen = ['tls://[::1]:{port}']\nupstreams = ['[::1]:9']\n\
         [tls]\ncertificate = '{path}/cert.pem'\nkey = '{path}/key.pem'\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    let (_dns64d, _) = Background::start(dns64d, "event=ready");
    let server = format!("[::1]:{port}");
    let output = sextant(&["trial", "--server", &server, "--rate", "10", "--transport", "doh"]);
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("the handshake with"), "{said}");
}
