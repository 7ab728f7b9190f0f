//! Knot, which has a AAAA for every name, over UDP and TCP.

use super::super::running::{alone, free_port};
use super::{Server, agrees, agrees_by_connections, file, told};

#[test]
fn knot_counts_the_same_queries() {
    if !testing::has_program("knotd", "knot") {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (path, server) = (directory.path(), format!("127.0.0.1:{}", free_port()));
    let zone = "$ORIGIN dns64perf.test.\n$TTL 60\n@ SOA ns admin 1 60 60 60 60\n@ NS ns\nns A 192.0.2.1\n\
                * AAAA 2001:db8::1\n";
    std::fs::write(path.join("zone"), zone).unwrap();
    let config = format!(
        "server:\n rundir: \"{0}\"\n listen: {1}\n tcp-workers: 1\n udp-workers: 1\n\
         database:\n storage: \"{0}\"\n\
         mod-stats:\n - id: all\n   request-protocol: on\n\
         template:\n - id: default\n   storage: \"{0}\"\n   global-module: mod-stats/all\n\
         zone:\n - domain: dns64perf.test\n   file: zone\n",
        path.display(),
        server.replace(':', "@")
    );
    std::fs::write(path.join("knot.conf"), config).unwrap();
    let socket = file(path, "knot.sock");
    let arguments = ["-c", &file(path, "knot.conf"), "-s", &socket];
    let _knot = Server::start("knotd", &arguments, &server);
    let count = |protocol: &str| {
        // Counters that are 0 are printed, too.
        let text = told("knotc", &["-s", &socket, "-f", "stats", "mod-stats.request-protocol"]);
        let line = text.lines().find_map(|line| line.split_once(&format!("[{protocol}] = ")));
        line.unwrap_or_else(|| panic!("{protocol} in {text}")).1.trim().parse::<u64>().unwrap()
    };
    let trial = agrees(&server, "udp", &[], || count("udp4"));
    assert_eq!((trial.sent, trial.answered, trial.invalid), (1000, 1000, 0), "{:?}", trial.losses);
    agrees_by_connections(&server, "tcp", &[], || count("tcp4"));
}
