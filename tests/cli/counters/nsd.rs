//! NSD, which has a AAAA for every name, over UDP, TCP and TLS.

use super::super::running::{alone, free_port};
use super::super::transports::certificate;
use super::{Server, agrees, agrees_by_connections, counter_of, file};

struct Nsd {
    _running: Server,
    directory: tempfile::TempDir,
    plain: String,
    tls: String,
}

impl Nsd {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        certificate(directory.path());
        let (port, tls_port) = (free_port(), free_port());
        let zone = "$TTL 60\n@ SOA ns.dns64perf.test. admin.dns64perf.test. 1 60 60 60 60\n@ NS ns.dns64perf.test.\n\
                    ns A 192.0.2.1\n* AAAA 2001:db8::1\n";
        std::fs::write(directory.path().join("zone"), zone).unwrap();
        let config = format!(
            "server:\n ip-address: 127.0.0.1@{port}\n ip-address: 127.0.0.1@{tls_port}\n server-count: 1\n \
             username: \"\"\n chroot: \"\"\n database: \"\"\n zonesdir: \"{path}\"\n pidfile: \"{path}/pid\"\n \
             xfrdfile: \"{path}/xfrd\"\n xfrdir: \"{path}\"\n zonelistfile: \"{path}/list\"\n cookie-secret-file: \"\"\n \
             tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n tls-port: {tls_port}\n \
             rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\nremote-control:\n control-enable: yes\n \
             control-interface: {path}/control\nzone:\n name: dns64perf.test\n zonefile: zone\n"
        );
        std::fs::write(directory.path().join("nsd.conf"), config).unwrap();
        let (plain, tls) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{tls_port}"));
        let running = Server::start("nsd", &["-d", "-c", &file(directory.path(), "nsd.conf")], &tls);
        Self { _running: running, directory, plain, tls }
    }

    /// One of its counters.
    fn count(&self, counter: &str) -> u64 {
        counter_of("nsd-control", &file(self.directory.path(), "nsd.conf"), counter)
    }
}

#[test]
fn nsd_counts_the_same_queries() {
    if !testing::has_program("nsd", "nsd") {
        return;
    }
    let _alone = alone();
    let nsd = Nsd::start();
    let trial = agrees(&nsd.plain, "udp", &[], || nsd.count("num.udp"));
    assert_eq!((trial.sent, trial.answered, trial.invalid), (1000, 1000, 0), "{:?}", trial.losses);
    agrees_by_connections(&nsd.plain, "tcp", &[], || nsd.count("num.tcp"));
    agrees_by_connections(&nsd.tls, "dot", &[], || nsd.count("num.tls"));
}
