//! DNS over TLS, HTTPS and QUIC, as kdig asks; and the certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::server::{File, HANGUP, Server, config_text};
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA};

const NAME: &str = "dns.example.com";
const LISTEN: &str = "listen = ['[::1]:0', 'tls://[::1]:0', 'https://[::1]:0', 'quic://[::1]:0']";

/// The files of a certificate that vouches for itself.
struct Certificate {
    directory: tempfile::TempDir,
}

impl Certificate {
    fn new() -> Self {
        let this = Self { directory: tempfile::tempdir().unwrap() };
        this.renew();
        this
    }

    /// Writes another one.
    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        std::fs::write(self.path("certificate.pem"), made.cert.pem()).unwrap();
        std::fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn keys(&self) -> String {
        format!(
            "tls.certificate = '{}'\ntls.key = '{}'",
            self.path("certificate.pem").display(),
            self.path("key.pem").display()
        )
    }
}

/// What kdig prints, with this certificate as the only authority; `None`, and a word why, where it is not
/// installed.
fn kdig(server: SocketAddr, authority: &Path, way: &str) -> Option<String> {
    if !testing::has_program("kdig", "knot-dnsutils") {
        return None;
    }
    let output = Command::new("kdig")
        .args(["+timeout=10", "+retry=0", "-p", &server.port().to_string()])
        .arg(format!("@{}", server.ip()))
        .arg(format!("+tls-ca={}", authority.display()))
        .args([&format!("+tls-hostname={NAME}"), way, "AAAA", "www.example.com"])
        .output();
    Some(String::from_utf8_lossy(&output.unwrap().stdout).into_owned())
}

fn encrypted(certificate: &Certificate, more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, &format!("{LISTEN}\n{}\n{more}", certificate.keys()));
    (upstream, server)
}

#[test]
fn rfc_7858_rfc_8484_rfc_9250_every_protocol_is_served() {
    let certificate = Certificate::new();
    let (_upstream, server) = encrypted(&certificate, "tls.https_path = '/elsewhere'");
    let https = format!("+https=https://{NAME}/elsewhere");
    for (address, way) in server.addresses[1..].iter().zip(["+tls", &https, "+quic"]) {
        let Some(text) = kdig(*address, &certificate.path("certificate.pem"), way) else { return };
        assert!(text.contains("2001:db8:64::c000:201"), "{way}: {text}");
    }
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload() {
    let certificate = Certificate::new();
    let (_upstream, mut server) = encrypted(&certificate, "");
    let old = certificate.path("old.pem");
    std::fs::copy(certificate.path("certificate.pem"), &old).unwrap();
    certificate.renew();
    server.reload();
    for (address, way) in server.addresses[1..].iter().zip(["+tls", "+https", "+quic"]) {
        let Some(text) = kdig(*address, &certificate.path("certificate.pem"), way) else { return };
        assert!(text.contains("2001:db8:64::c000:201"), "{way}: {text}");
        let text = kdig(*address, &old, way).unwrap_or_default();
        assert!(!text.contains("2001:db8:64::c000:201"), "{way} shows the old certificate");
    }
}

#[test]
fn a_bad_certificate_at_a_reload_leaves_the_old_one() {
    let certificate = Certificate::new();
    let (_upstream, mut server) = encrypted(&certificate, "");
    let old = certificate.path("old.pem");
    std::fs::rename(certificate.path("certificate.pem"), &old).unwrap();
    std::fs::write(certificate.path("certificate.pem"), "nonsense").unwrap();
    server.signal(HANGUP);
    let line = server.hear(" event=reload ");
    assert!(line.contains("level=error") && line.contains("tls.certificate"), "{line}");
    let Some(text) = kdig(server.addresses[1], &old, "+tls") else { return };
    assert!(text.contains("2001:db8:64::c000:201"), "{text}");
}

#[test]
fn a_bad_certificate_at_the_start_is_one_line_and_exit_code_2() {
    let certificate = Certificate::new();
    let other = Certificate::new();
    let upstream = ["192.0.2.1:53".parse().unwrap()];
    let start = || {
        let output =
            File::new(&config_text(&upstream, &format!("{LISTEN}\n{}", certificate.keys()))).run(&[]);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.lines().count() == 1 && words.contains("tls."), "{words}");
    };
    std::fs::copy(other.path("key.pem"), certificate.path("key.pem")).unwrap();
    start();
    std::fs::write(certificate.path("certificate.pem"), "nonsense").unwrap();
    start();
    std::fs::remove_file(certificate.path("key.pem")).unwrap();
    start();
}

#[test]
fn upstream_servers_are_asked_over_every_protocol() {
    let certificate = Certificate::new();
    let (upstream, far) = encrypted(&certificate, "cache.size_mib = 0");
    let roots = format!("upstream.roots = '{}'", certificate.path("certificate.pem").display());
    for (address, scheme) in far.addresses[1..].iter().zip(["tls", "https", "quic"]) {
        let path = if scheme == "https" { "/dns-query" } else { "" };
        let near = Server::before(
            &upstream,
            &format!("upstreams = ['{scheme}://{address}{path}#{NAME}']\ncache.size_mib = 0\n{roots}"),
        );
        near.ask(A).is(0, &[A_RECORD]);
        // A name that the certificate does not have.
        let wrong = Server::before(
            &upstream,
            &format!("upstreams = ['{scheme}://{address}{path}#other.example']\n{roots}"),
        );
        wrong.ask(A).is(2, &[]);
    }
}
