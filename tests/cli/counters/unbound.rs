//! Unbound, which has a AAAA for every name, over TCP, TLS and HTTPS.

use super::super::running::{alone, free_port};
use super::super::transports::{certificate, is_answered};
use super::{Server, agrees, agrees_by_connections, counter_of, file};

struct Unbound {
    _running: Server,
    directory: tempfile::TempDir,
    tcp: String,
    tls: String,
    https: String,
}

impl Unbound {
    /// One that allows so many streams of HTTP/2 at a time.
    fn start(streams: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        certificate(directory.path());
        let [port, tls_port, https_port] = std::array::from_fn(|_| free_port());
        let config = format!(
            "server:\n interface: 127.0.0.1@{port}\n interface: 127.0.0.1@{tls_port}\n tls-port: {tls_port}\n \
             interface: 127.0.0.1@{https_port}\n https-port: {https_port}\n http-max-streams: {streams}\n \
             username: \"\"\n chroot: \"\"\n directory: \"{path}\"\n pidfile: \"\"\n use-syslog: no\n num-threads: 1\n \
             tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n \
             extended-statistics: yes\n incoming-num-tcp: 100\n module-config: \"iterator\"\n \
             local-zone: \"dns64perf.test.\" redirect\n local-data: \"dns64perf.test. AAAA 2001:db8::1\"\n\
             remote-control:\n control-enable: yes\n control-interface: \"{path}/control\"\n control-use-cert: no\n"
        );
        std::fs::write(directory.path().join("unbound.conf"), config).unwrap();
        let [tcp, tls, https] = [port, tls_port, https_port].map(|port| format!("127.0.0.1:{port}"));
        let running =
            Server::start("unbound", &["-d", "-c", &file(directory.path(), "unbound.conf")], &https);
        Self { _running: running, directory, tcp, tls, https }
    }

    /// One of its counters.
    fn count(&self, counter: &str) -> u64 {
        counter_of("unbound-control", &file(self.directory.path(), "unbound.conf"), counter)
    }
}

#[test]
fn unbound_counts_the_same_queries() {
    if !testing::has_program("unbound", "unbound") {
        return;
    }
    let _alone = alone();
    let unbound = Unbound::start(100);
    agrees_by_connections(&unbound.tcp, "tcp", &[], || unbound.count("num.query.tcp"));
    agrees_by_connections(&unbound.tls, "dot", &[], || unbound.count("num.query.tls"));
    for method in ["get", "post"] {
        let options = ["--doh-method", method];
        agrees_by_connections(&unbound.https, "doh", &options, || unbound.count("num.query.https"));
    }
}

#[test]
fn the_number_of_streams_of_unbound_is_kept() {
    if !testing::has_program("unbound", "unbound") {
        return;
    }
    let _alone = alone();
    // Unbound refuses streams beyond its number: not one is refused where the number is kept.
    let unbound = Unbound::start(1);
    let options = ["--connections", "1", "--load", "burst:50"];
    let trial = agrees(&unbound.https, "doh", &options, || unbound.count("num.query.https"));
    is_answered(&trial);
    let seen = trial.connections.unwrap();
    assert!(seen.waited > 500 && seen.refusals.is_empty(), "{} {:?}", seen.waited, seen.refusals);
}
