//! What the servers are told: a zone file of 2^20 names for those of others, a rule for ours.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use dns64::names::{self, LABEL_LENGTH};
use lab::network::Role;

use super::{HTTPS_PORT, PORT, Placement, TLS_PORT};

/// Names in the zone file and in the query file: 10.0.0.0/12.
pub(super) const NAMES: u32 = 1 << 20;
/// Connections that the AuthDNS may have at a time.
const AUTH_CONNECTIONS: &str = "100000";

impl Placement {
    /// The rest of a command that starts the AuthDNS with all transports.
    pub(super) fn auth<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let over = |transport| self.server_over(transport);
        let command = self.auth_beside(command, over("udp"), over("dot"));
        for transport in ["doh", "doq", "doh3"] {
            command.args([format!("--{transport}"), over(transport).to_string()]);
        }
        command
    }

    /// The same with DNS over TLS alone.
    pub(super) fn auth_beside<'c>(
        &self,
        command: &'c mut Command,
        udp: SocketAddr,
        dot: SocketAddr,
    ) -> &'c mut Command {
        command.args([env!("CARGO_BIN_EXE_sextant"), "auth", "--json", "--io", "udp", "--aaaa-share", "100"]);
        command.args(["--listen", &udp.to_string(), "--dot", &dot.to_string()]);
        command.args(["--connections", AUTH_CONNECTIONS])
    }

    /// Writes the configuration of NSD, with or without TCP and TLS.
    pub(super) fn nsd(&self, with_tls: bool) -> io::Result<PathBuf> {
        let more = if with_tls { self.nsd_tls()? } else { String::new() };
        let (address, directory) = (self.server.ip(), self.directory.path().display());
        let zone = self.zone()?;
        let text = format!(
            "server:\n  ip-address: {address}@{PORT}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  \
             database: \"\"\n  zonesdir: \"{directory}\"\n  pidfile: \"{directory}/nsd.pid\"\n  \
             xfrdfile: \"{directory}/xfrd.state\"\n  zonelistfile: \"{directory}/zone.list\"\n  \
             xfrdir: \"{directory}\"\n  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  \
             cookie-secret-file: \"\"\n{more}remote-control:\n  control-enable: no\nzone:\n  \
             name: dns64perf.test\n  zonefile: \"{}\"\n",
            zone.display()
        );
        self.configuration("nsd.conf", &text)
    }

    fn nsd_tls(&self) -> io::Result<String> {
        let (certificate, key) = self.certificate()?;
        Ok(format!(
            "  ip-address: {}@{TLS_PORT}\n  tls-port: {TLS_PORT}\n  tls-service-pem: \"{}\"\n  \
             tls-service-key: \"{}\"\n  tcp-count: 2000\n  tcp-query-count: 0\n",
            self.server.ip(),
            certificate.display(),
            key.display()
        ))
    }

    /// Writes the configuration of Unbound: it answers from the zone as an authoritative server does.
    pub(super) fn unbound(&self) -> io::Result<PathBuf> {
        let ((certificate, key), zone) = (self.certificate()?, self.zone()?);
        let (address, directory) = (self.server.ip(), self.directory.path().display());
        let text = format!(
            "server:\n  interface: {address}@{PORT}\n  interface: {address}@{HTTPS_PORT}\n  \
             https-port: {HTTPS_PORT}\n  tls-service-pem: \"{}\"\n  tls-service-key: \"{}\"\n  \
             access-control: 0.0.0.0/0 allow\n  num-threads: 1\n  incoming-num-tcp: 2000\n  \
             do-daemonize: no\n  use-syslog: no\n  logfile: \"\"\n  username: \"\"\n  chroot: \"\"\n  \
             directory: \"{directory}\"\n  pidfile: \"\"\n  module-config: \"iterator\"\n  \
             local-zone: \"test.\" nodefault\n\
             remote-control:\n  control-enable: no\n\
             auth-zone:\n  name: dns64perf.test\n  zonefile: \"{}\"\n  for-downstream: yes\n  \
             for-upstream: no\n",
            certificate.display(),
            key.display(),
            zone.display()
        );
        self.configuration("unbound.conf", &text)
    }

    /// Writes the configuration of Knot: one worker over AF_XDP, for QUIC too.
    pub(super) fn knot(&self) -> io::Result<PathBuf> {
        let ((certificate, key), zone) = (self.certificate()?, self.zone()?);
        let (address, directory) = (self.server.ip(), self.directory.path().display());
        let device = self.lab.end(Role::Dut, Role::Tester).device;
        let text = format!(
            "xdp:\n  listen: [ \"{device}@{PORT}\" ]\n  quic: on\n  quic-port: {TLS_PORT}\n\
             server:\n  listen: [ \"{address}@{PORT}\" ]\n  udp-workers: 1\n  tcp-workers: 1\n  \
             background-workers: 1\n  rundir: \"{directory}\"\n  cert-file: \"{}\"\n  key-file: \"{}\"\n\
             log:\n  - target: stderr\n    any: warning\n\
             database:\n  storage: \"{directory}\"\n\
             zone:\n  - domain: dns64perf.test\n    file: \"{}\"\n    zonefile-load: whole\n    \
             journal-content: none\n    zonefile-sync: -1\n    semantic-checks: off\n",
            certificate.display(),
            key.display(),
            zone.display()
        );
        self.configuration("knot.conf", &text)
    }

    fn configuration(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.scratch(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// The files of a certificate that nobody checks and of its key.
    fn certificate(&self) -> io::Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (self.scratch("certificate.pem"), self.scratch("key.pem"));
        let made = rcgen::generate_simple_self_signed(["dut.test".to_owned()]).map_err(io::Error::other)?;
        fs::write(&certificate, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        Ok((certificate, key))
    }

    /// The zone file, written when it is first asked for.
    fn zone(&self) -> io::Result<PathBuf> {
        const APEX: &str = "$ORIGIN dns64perf.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 198.18.0.2\n";
        let zone = self.scratch("zone");
        if !zone.exists() {
            write_names((&zone, NAMES), APEX, |label, address| {
                format!("{label} AAAA 2001:2:0:aaaa::{:x}:{:x}\n", address >> 16, address & 0xffff)
            })?;
        }
        Ok(zone)
    }
}

/// Writes a line for each of the first names.
pub(super) fn write_names(
    (path, names): (&Path, u32),
    head: &str,
    line: impl Fn(&str, u32) -> String,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(head.as_bytes())?;
    for index in 0..names {
        let (address, mut label) = (0x0a00_0000 + index, [0; LABEL_LENGTH]);
        names::write_label(Ipv4Addr::from_bits(address), &mut label);
        out.write_all(line(&String::from_utf8_lossy(&label), address).as_bytes())?;
    }
    out.flush()
}
