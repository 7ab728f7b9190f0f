//! dnsdist, which answers every question for AAAA by itself, over TLS and HTTPS.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::super::running::{alone, free_port};
use super::super::transports::certificate;
use super::{Server, agrees_by_connections, file};

#[test]
fn dnsdist_counts_the_same_queries() {
    if !testing::has_program("dnsdist", "dnsdist") {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    certificate(directory.path());
    let [plain, tls, https, web] = std::array::from_fn(|_| format!("127.0.0.1:{}", free_port()));
    let config = format!(
        "setLocal('{plain}')\n\
         addTLSLocal('{tls}', '{path}/cert.pem', '{path}/key.pem')\n\
         addDOHLocal('{https}', '{path}/cert.pem', '{path}/key.pem', '/dns-query')\n\
         addAction(AllRule(), SpoofAction('2001:db8::1'))\n\
         webserver('{web}')\nsetWebserverConfig({{password='none', apiKey='none', acl='127.0.0.1'}})\n"
    );
    std::fs::write(directory.path().join("dnsdist.conf"), config).unwrap();
    let arguments = ["--supervised", "--disable-syslog", "-C", &file(directory.path(), "dnsdist.conf")];
    let _dnsdist = Server::start("dnsdist", &arguments, &web);
    agrees_by_connections(&tls, "dot", &[], || count(&web, ("frontends", &tls), "queries"));
    for method in ["get", "post"] {
        let counter = format!("{method}-queries");
        agrees_by_connections(&https, "doh", &["--doh-method", method], || {
            count(&web, ("dohFrontends", &https), &counter)
        });
    }
}

/// A counter of the listener of this kind at this address, by the web server's word.
fn count(web: &str, (kind, address): (&str, &str), counter: &str) -> u64 {
    let mut stream = TcpStream::connect(web).unwrap();
    let request = "GET /api/v1/servers/localhost HTTP/1.0\r\nX-API-Key: none\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}")).1;
    let told: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
    let mut listeners = told[kind].as_array().unwrap().iter();
    let listener = listeners.find(|listener| listener["address"] == address);
    listener.unwrap_or_else(|| panic!("{address} in {told}"))[counter].as_u64().unwrap()
}
