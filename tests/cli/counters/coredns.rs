//! CoreDNS, which has a AAAA for every name, over QUIC.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::super::running::{alone, free_port};
use super::super::transports::certificate;
use super::{Server, agrees_by_connections, file, quiet};

#[test]
fn coredns_counts_the_same_queries_over_quic() {
    if quiet("coredns").arg("-version").status().is_err() {
        return testing::skip("peer coredns", "CoreDNS is not installed: https://coredns.io has programs");
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    certificate(path);
    let (port, metrics) = (free_port(), format!("[::1]:{}", free_port()));
    let text = format!(
        "quic://.:{port} {{\n bind ::1\n tls {path}/cert.pem {path}/key.pem\n prometheus {metrics}\n\
         template IN AAAA {{\n answer \"{{{{ .Name }}}} 60 IN AAAA 2001:db8::1\"\n }}\n}}\n",
        path = path.display()
    );
    std::fs::write(path.join("Corefile"), text).unwrap();
    let _coredns = Server::start("coredns", &["-conf", &file(path, "Corefile")], &metrics);
    agrees_by_connections(&format!("[::1]:{port}"), "doq", &[], || queries(&metrics));
}

/// How many queries came, by its metrics.
fn queries(metrics: &str) -> u64 {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let counted = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total"));
    counted.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}
