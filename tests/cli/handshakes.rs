//! Handshakes that fail: the reason, and what to do, in one line.

use super::running::{Background, auth_with, command, free_port, sextant, stderr};
use super::transports::NAME;

/// That no trial begins at this server, for a reason in one line.
fn refused(server: &str, options: &[&str], reasons: &[&str]) {
    let output = sextant(&[&["trial", "--server", server, "--rate", "10"], options].concat());
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
    for reason in reasons {
        assert!(said.contains(reason), "'{reason}' is missing in: {said}");
    }
}

#[test]
fn a_server_of_another_protocol_is_said_to_be_one() {
    let [doq, doh3] = std::array::from_fn(|_| format!("[::1]:{}", free_port()));
    let (_auth, _) = auth_with(&["--doq", &doq, "--doh3", &doh3]);
    let reasons = ["the handshake with", "the server does not speak the protocol of --transport (ALPN)"];
    refused(&doh3, &["--transport", "doq"], &reasons);
    refused(&doq, &["--transport", "doh3"], &reasons);
}

#[test]
fn another_key_than_the_pinned_one_is_said_with_its_pin() {
    let [dot, doh, doq, doh3] = std::array::from_fn(|_| format!("[::1]:{}", free_port()));
    let listen = ["--dot", &dot, "--doh", &doh, "--doq", &doq, "--doh3", &doh3];
    let auth = command(&[&["auth", "--listen", "[::1]:0"], &listen[..]].concat());
    let (_auth, line) = Background::start(auth, "TLS pin");
    let own = format!("its pin is '{}'", line.strip_prefix("sextant auth: TLS pin: ").unwrap().trim_end());
    let reasons = ["the handshake with", "another key than that of --tls-pin", &own];
    let pin = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for (server, transport) in [(&dot, "dot"), (&doh, "doh"), (&doq, "doq"), (&doh3, "doh3")] {
        refused(server, &["--transport", transport, "--tls-pin", pin], &reasons);
    }
}

/// OpenSSL makes such certificates by default.
#[test]
fn a_certificate_of_an_authority_is_said_to_be_one() {
    let base = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("{}/{name}", base.path().display());
    let mut parameters = rcgen::CertificateParams::new([NAME.to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(file("cert.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    let dot = format!("[::1]:{}", free_port());
    let (_auth, _) =
        auth_with(&["--dot", &dot, "--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")]);
    let checked = ["--transport", "dot", "--tls-name", NAME, "--tls-ca", &file("cert.pem")];
    refused(&dot, &checked, &["CA:FALSE", "--tls-pin"]);
}
