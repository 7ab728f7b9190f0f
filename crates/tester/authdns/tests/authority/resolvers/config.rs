//! How each resolver is told to ask the AuthDNS: for the zone of the names and for the zones of the reverse
//! names.

use std::fmt::Write as _;
use std::path::Path;

use authdns::{Transport, TrustAnchor};

/// The name in the certificate of the AuthDNS.
pub const NAME: &str = "ns.dns64perf.test";

/// The zones of a configuration with names in 10.0.0.0/8.
pub const ZONES: [&str; 3] =
    ["dns64perf.test", "10.in-addr.arpa", "0.0.0.0.0.0.0.0.a.a.a.a.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa"];

/// A resolver, or a proxy, from its distribution's package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    Bind,
    Unbound,
    Powerdns,
    Knot,
    /// A proxy: it passes everything on.
    Dnsdist,
}

/// How it asks.
#[derive(Clone, Debug)]
pub struct Setup {
    pub resolver: Resolver,
    /// Whether it asks as an iterating resolver does, rather than as a forwarder; PowerDNS and Knot know one
    /// way each.
    pub iterates: bool,
    /// How it asks: over UDP, and TCP where an answer is truncated; over TCP alone (not PowerDNS); over TLS
    /// alone (Unbound, Knot, dnsdist) or HTTPS alone (dnsdist).
    pub over: Transport,
    /// The authority, in PEM, that must have signed the certificate of [`NAME`].
    pub authority: String,
    /// Whom it trusts; nobody: it does not validate.
    pub anchors: Vec<TrustAnchor>,
}

impl Resolver {
    /// The resolvers.
    pub const ALL: [Self; 4] = [Self::Bind, Self::Unbound, Self::Powerdns, Self::Knot];

    pub fn program(self) -> &'static str {
        match self {
            Self::Bind => "/usr/sbin/named",
            Self::Unbound => "/usr/sbin/unbound",
            Self::Powerdns => "/usr/sbin/pdns_recursor",
            Self::Knot => "/usr/sbin/kresd",
            Self::Dnsdist => "/usr/bin/dnsdist",
        }
    }

    pub fn setup(self) -> Setup {
        Setup {
            resolver: self,
            iterates: false,
            over: Transport::Udp,
            authority: String::new(),
            anchors: Vec::new(),
        }
    }

    /// Its arguments with its files in `directory`.
    pub fn arguments(self, directory: &str) -> Vec<String> {
        let text = match self {
            Self::Bind => format!("-g -n 1 -c {directory}/peer.conf"),
            Self::Unbound => format!("-d -p -c {directory}/peer.conf"),
            Self::Powerdns => format!("--config-dir={directory} --config-name="),
            Self::Knot => format!("-n -c {directory}/peer.conf {directory}"),
            Self::Dnsdist => format!("--supervised --disable-syslog -C {directory}/peer.conf"),
        };
        text.split(' ').map(str::to_owned).collect()
    }
}

impl Setup {
    /// Writes the configuration: it listens on a port of 127.0.0.1 and asks the AuthDNS on another.
    pub fn write(&self, directory: &Path, port: u16, auth: u16) -> std::io::Result<()> {
        let place = directory.display().to_string();
        std::fs::write(directory.join("authority.pem"), &self.authority)?;
        for (file, anchor) in self.anchor_files(&place).zip(&self.anchors) {
            std::fs::write(file, anchor.file_text())?;
        }
        let (name, text) = match self.resolver {
            Resolver::Bind => ("peer.conf", self.bind(&place, port, auth)),
            Resolver::Unbound => ("peer.conf", self.unbound(&place, port, auth)),
            Resolver::Knot => ("peer.conf", self.knot(&place, port, auth)),
            Resolver::Dnsdist => ("peer.conf", self.dnsdist(&place, port, auth)),
            Resolver::Powerdns => {
                std::fs::write(directory.join("anchors.lua"), self.powerdns_anchors())?;
                ("recursor.conf", self.powerdns(&place, port, auth))
            }
        };
        std::fs::write(directory.join(name), text)
    }

    fn anchor_files(&self, directory: &str) -> impl Iterator<Item = String> {
        self.anchors.iter().map(move |anchor| format!("{directory}/{}key", anchor.zone))
    }

    /// What stands as comments in the files.
    fn anchor_statements(&self, start: &str) -> String {
        let files = self.anchors.iter().map(TrustAnchor::file_text);
        files
            .flat_map(|file| {
                file.lines()
                    .filter_map(|line| line.strip_prefix(start))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .map(|line| line + "\n")
            .collect()
    }

    fn bind(&self, directory: &str, port: u16, auth: u16) -> String {
        let tcp_only = if self.over == Transport::Tcp { "yes" } else { "no" };
        let validation = if self.anchors.is_empty() { "no" } else { "yes" };
        let mut text = format!(
            "options {{ directory \"{directory}\"; pid-file none; session-keyfile none; port {auth};\n\
             listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion yes;\n\
             dnssec-validation {validation}; qname-minimization strict; empty-zones-enable no; }};\n\
             controls {{ }};\nserver 127.0.0.1 {{ tcp-only {tcp_only}; }};\n"
        );
        for zone in ZONES {
            let how = if self.iterates {
                "type static-stub; server-addresses { 127.0.0.1; };".to_owned()
            } else {
                format!("type forward; forward only; forwarders {{ 127.0.0.1 port {auth}; }};")
            };
            let _ = writeln!(text, "zone \"{zone}\" {{ {how} }};");
        }
        text + &self.anchor_statements("; BIND, in named.conf: ")
    }

    fn unbound(&self, directory: &str, port: u16, auth: u16) -> String {
        let modules = if self.anchors.is_empty() { "iterator" } else { "validator iterator" };
        let mut text = format!(
            "server:\n interface: 127.0.0.1@{port}\n do-daemonize: no\n use-syslog: no\n logfile: \"\"\n\
             username: \"\"\n chroot: \"\"\n directory: \"{directory}\"\n pidfile: \"{directory}/unbound.pid\"\n\
             do-not-query-localhost: no\n local-zone: \"test.\" nodefault\n module-config: \"{modules}\"\n\
             unblock-lan-zones: yes\n qname-minimisation: yes\n qname-minimisation-strict: yes\n\
             harden-referral-path: yes\n harden-below-nxdomain: yes\n use-caps-for-id: yes\n"
        );
        for file in self.anchor_files(directory) {
            let _ = writeln!(text, " trust-anchor-file: {file}");
        }
        if !self.authority.is_empty() {
            let _ = writeln!(text, " tls-cert-bundle: {directory}/authority.pem");
        }
        text.push_str("remote-control:\n control-enable: no\n");
        for zone in ZONES {
            let kind = if self.iterates { "stub" } else { "forward" };
            let (over, name) = match self.over {
                Transport::Tcp => (format!(" {kind}-tcp-upstream: yes\n"), String::new()),
                Transport::Dot => (format!(" {kind}-tls-upstream: yes\n"), format!("#{NAME}")),
                _ => (String::new(), String::new()),
            };
            let _ =
                write!(text, "{kind}-zone:\n name: \"{zone}\"\n {kind}-addr: 127.0.0.1@{auth}{name}\n{over}");
        }
        text
    }

    fn powerdns(&self, directory: &str, port: u16, auth: u16) -> String {
        let dnssec = if self.anchors.is_empty() { "off" } else { "validate" };
        let zones = ZONES.map(|zone| format!("{zone}=127.0.0.1:{auth}")).join(",");
        format!(
            "local-address=127.0.0.1:{port}\nforward-zones={zones}\ndnssec={dnssec}\n\
             lua-config-file={directory}/anchors.lua\nsocket-dir={directory}\ndont-query=\ndaemon=no\n\
             disable-syslog=yes\nhint-file=no\nsecurity-poll-suffix=\nwrite-pid=no\nserve-rfc1918=no\nthreads=1\n\
             setuid=\nsetgid=\nloglevel=4\n"
        )
    }

    fn powerdns_anchors(&self) -> String {
        "clearTA('.')\n".to_owned() + &self.anchor_statements("; PowerDNS Recursor, in lua-config-file: ")
    }

    fn knot(&self, directory: &str, port: u16, auth: u16) -> String {
        let zones = ZONES.map(|zone| format!("'{zone}.'")).join(", ");
        let mut text = format!(
            "net.listen('127.0.0.1', {port}, {{ kind = 'dns' }})\nlog_level('info')\n\
             cache.open(10 * MB, 'lmdb://{directory}/cache')\n"
        );
        for module in ["ta_update", "ta_signal_query", "priming", "detect_time_jump", "detect_time_skew"] {
            let _ = writeln!(text, "modules.unload('{module}')");
        }
        text.push_str("trust_anchors.remove('.')\n");
        for file in self.anchor_files(directory) {
            let _ = writeln!(text, "trust_anchors.add_file('{file}', true)");
        }
        if self.over == Transport::Tcp {
            text.push_str("policy.add(policy.all(policy.FLAGS('TCP')))\n");
        }
        let forward = match self.over {
            Transport::Dot => format!(
                "TLS_FORWARD({{{{'127.0.0.1@{auth}', hostname='{NAME}', ca_file='{directory}/authority.pem'}}}})"
            ),
            _ => format!("FORWARD('127.0.0.1@{auth}')"),
        };
        let _ = writeln!(text, "policy.add(policy.suffix(policy.{forward}, policy.todnames({{ {zones} }})))");
        text
    }

    fn dnsdist(&self, directory: &str, port: u16, auth: u16) -> String {
        let path = if self.over == Transport::Doh { ", dohPath='/dns-query'" } else { "" };
        format!(
            "setLocal('127.0.0.1:{port}')\nsetSecurityPollSuffix('')\n\
             newServer({{address='127.0.0.1:{auth}', tls='openssl', subjectName='{NAME}', validateCertificates=true, \
             caStore='{directory}/authority.pem', checkName='{NAME}.'{path}}})\n"
        )
    }
}
