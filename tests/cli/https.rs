//! `sextant trial` over HTTPS: against dns64d, and against Unbound, whose own counts agree.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use record::{LossPlace, Trial};

use super::running::{Background, alone, auth, free_port, sextant, stderr};
use super::transports::{NAME, Running, certificate, is_answered, tried};

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

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

/// Unbound with a AAAA for every name, over HTTPS, and its control socket.
struct Unbound {
    _running: Running,
    directory: tempfile::TempDir,
    server: String,
}

impl Unbound {
    /// One that allows so many streams at a time.
    fn start(streams: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        certificate(directory.path());
        let port = free_port();
        let config = format!(
            "server:\n interface: 127.0.0.1@{port}\n https-port: {port}\n http-max-streams: {streams}\n \
             username: \"\"\n chroot: \"\"\n directory: \"{path}\"\n pidfile: \"\"\n use-syslog: no\n num-threads: 1\n \
             tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n \
             extended-statistics: yes\n incoming-num-tcp: 100\n module-config: \"iterator\"\n \
             local-zone: \"dns64perf.test.\" redirect\n local-data: \"dns64perf.test. AAAA 2001:db8::1\"\n\
             remote-control:\n control-enable: yes\n control-interface: \"{path}/control\"\n control-use-cert: no\n"
        );
        std::fs::write(directory.path().join("unbound.conf"), config).unwrap();
        let mut command = Command::new("unbound");
        command.arg("-d").arg("-c").arg(directory.path().join("unbound.conf"));
        command.env("PATH", PATH).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        let server = format!("127.0.0.1:{port}");
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&server).is_err() {
            assert!(Instant::now() < until, "Unbound does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { _running: running, directory, server }
    }

    /// How many queries came over HTTPS.
    fn queries(&self) -> u64 {
        let mut control = Command::new("unbound-control");
        control.arg("-c").arg(self.directory.path().join("unbound.conf")).arg("stats_noreset");
        let output = control.env("PATH", PATH).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("num.query.https="));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    }

    fn tried(&self, options: &[&str]) -> Trial {
        let before = self.queries();
        let fixed = ["--transport", "doh", "--validity", "response"];
        let trial = tried(&self.server, &[&fixed, options].concat());
        // One more asked whether the server is there.
        assert_eq!(self.queries() - before, trial.sent + 1, "{:?}", trial.losses);
        trial
    }
}

#[test]
fn unbound_counts_the_same_queries_and_its_number_of_streams_is_kept() {
    if !testing::has_program("unbound", "unbound") {
        return;
    }
    let _alone = alone();
    let unbound = Unbound::start(100);
    for method in ["get", "post"] {
        let trial = unbound.tried(&["--doh-method", method, "--queries-per-connection", "50"]);
        is_answered(&trial);
        assert!(!trial.losses.contains_key(&LossPlace::ConnectionReset), "{:?}", trial.losses);
    }
    // Unbound refuses streams beyond its number: not one is refused where the number is kept.
    let unbound = Unbound::start(1);
    let trial = unbound.tried(&["--connections", "1", "--load", "burst:50"]);
    assert_eq!((trial.sent, trial.answered), (1000, 1000), "{:?}", trial.losses);
    let seen = trial.connections.unwrap();
    assert!(seen.waited > 500 && seen.refusals.is_empty(), "{} {:?}", seen.waited, seen.refusals);
}
