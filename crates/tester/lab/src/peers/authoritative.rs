//! Servers of zones, to be the AuthDNS or to be compared with ours.
//!
//! To add one, add its row to the table and its template. Each option in a configuration says why it is
//! there: `sextant zone` hands the same text to users.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::server::{Server, Settings, UNSET, Values};
use super::table::BIND;
use super::{PeerError, Placement, Probe, RunningPeer, start_with};

/// What a server of a zone is told, the same for every one.
#[derive(Clone, Debug)]
pub struct ZoneSettings {
    /// Where it answers, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The name of the zone, without the dot at the end.
    pub zone: String,
    /// The zone's master file.
    pub zone_file: PathBuf,
    /// Threads or processes for UDP, at least one.
    pub workers: usize,
    /// Its own directory, for what it writes.
    pub directory: PathBuf,
    /// The device whose queries it answers with AF_XDP; others ignore it.
    pub device: Option<String>,
    /// The size of its socket buffers in octets, where it can be told.
    pub buffer_octets: u64,
    /// The same zone as options of `sextant auth`.
    pub rule: Vec<String>,
    /// The user and the group it runs as, where it wants to be told: those that it is started by.
    pub user: (String, String),
}

impl Settings for ZoneSettings {
    fn values(&self) -> Values {
        let Self { listen, zone, zone_file, workers, directory, device, buffer_octets, rule, user } = self;
        let each = |form: &dyn Fn(&SocketAddr) -> String, separator: &str| {
            listen.iter().map(form).collect::<Vec<_>>().join(separator)
        };
        vec![
            ("listen", each(&SocketAddr::to_string, ", ")),
            ("listen_port", each(&|at| format!("{} port {}", at.ip(), at.port()), ", ")),
            ("listen_at", each(&|at| format!("\"{}@{}\"", at.ip(), at.port()), ", ")),
            ("listen_on", listen_on(listen)),
            ("ip_addresses", each(&|at| format!("    ip-address: {}@{}\n", at.ip(), at.port()), "")),
            ("listen_options", each(&|at| format!("--listen\n{at}"), "\n")),
            ("first_port", listen.first().map_or(53, SocketAddr::port).to_string()),
            ("zone", zone.clone()),
            ("zone_file", zone_file.display().to_string()),
            ("workers", workers.max(&1).to_string()),
            ("reuseport", if *workers > 1 { "yes" } else { "no" }.to_owned()),
            ("directory", directory.display().to_string()),
            ("device", device.clone().unwrap_or_else(|| "eth0".to_owned())),
            ("buffer_octets", buffer_octets.to_string()),
            ("rule", rule.join(" ")),
            ("rule_options", rule.join("\n")),
            ("user", user.0.clone()),
            ("group", user.1.clone()),
        ]
    }
}

/// The statements of BIND for these addresses: of a family without one, that it is not listened to.
fn listen_on(listen: &[SocketAddr]) -> String {
    let statements = |option: &str, is_ipv6: bool| {
        let of_family = listen.iter().filter(|at| at.is_ipv6() == is_ipv6);
        let text: String =
            of_family.map(|at| format!("    {option} port {} {{ {}; }};\n", at.port(), at.ip())).collect();
        if text.is_empty() { format!("    {option} {{ none; }};\n") } else { text }
    };
    statements("listen-on", false) + &statements("listen-on-v6", true)
}

/// All of them, ours first.
pub fn all() -> &'static [Server] {
    &SERVERS
}

/// Our own AuthDNS, on sockets.
const SEXTANT: Server = Server {
    name: "sextant",
    program: "sextant",
    version: (&["--version"], "sextant "),
    files: &[("none", "# It has no file: it answers from a rule, sextant auth {rule}\n")],
    arguments: &["auth", "{listen_options}", "--threads", "{workers}", "{rule_options}"],
    ..UNSET
};

const KNOT: Server = Server {
    name: "knot",
    package: Some("knot"),
    program: "knotd",
    version: (&["--version"], "version "),
    files: &[("knot.conf", include_str!("../../templates/zones/knot.conf"))],
    arguments: &["--config", "{configuration}"],
    ..UNSET
};

static SERVERS: [Server; 9] = [
    SEXTANT,
    // In the kernel, without sockets.
    Server {
        name: "sextant-kernel",
        xdp: Some(""),
        arguments: &[
            "auth",
            "{listen_options}",
            "--threads",
            "{workers}",
            "--io",
            "kernel",
            "--device",
            "{device}",
            "{rule_options}",
        ],
        ..SEXTANT
    },
    // NLnet Labs: a process for each server, the zone in memory. Without CAP_NET_ADMIN it leaves its sockets
    // at the system's default: it tries SO_RCVBUFFORCE alone (4.6.1).
    Server {
        name: "nsd",
        package: Some("nsd"),
        program: "nsd",
        version: (&["-v"], "NSD version "),
        files: &[("nsd.conf", include_str!("../../templates/zones/nsd.conf"))],
        arguments: &["-d", "-c", "{configuration}"],
        needs_root: true,
        ..UNSET
    },
    KNOT,
    Server { name: "knot-xdp", xdp: Some(include_str!("../../templates/zones/knot-xdp.conf")), ..KNOT },
    // In the foreground by -g, its log on standard error.
    Server {
        files: &[("named.conf", include_str!("../../templates/zones/named.conf"))],
        arguments: &["-g", "-n", "{workers}", "-c", "{configuration}"],
        ..BIND
    },
    // EURid.
    Server {
        name: "yadifa",
        package: Some("yadifa"),
        program: "yadifad",
        version: (&["--version"], "yadifad "),
        files: &[("yadifad.conf", include_str!("../../templates/zones/yadifad.conf"))],
        arguments: &["-c", "{configuration}"],
        ..UNSET
    },
    // PowerDNS Authoritative Server, with the zone in memory (its bind backend). A file of its own names the
    // zone.
    Server {
        name: "pdns",
        package: Some("pdns-server pdns-backend-bind"),
        program: "pdns_server",
        version: (&["--version"], "Authoritative Server "),
        files: &[
            ("pdns.conf", include_str!("../../templates/zones/pdns.conf")),
            ("zones.conf", "zone \"{zone}\" { type master; file \"{zone_file}\"; };\n"),
        ],
        arguments: &["--config-dir={directory}"],
        ..UNSET
    },
    // Budapest University of Technology and Economics: answers from the name asked, as `sextant auth` does.
    // It does not print its version: it would start to serve.
    Server {
        name: "fakedns",
        built_by: Some("build it from its authors' sources and put it on the PATH"),
        program: "fakedns",
        files: &[(
            "none",
            "# It has no file: it makes each answer from the name asked, like sextant auth {rule}\n",
        )],
        by_hand: Some(
            "fakedns goes to the background and has its prefix wired in, so it is yours to start: measure it with 'sextant search \
             --server ADDR:PORT --prefix ITS_PREFIX'",
        ),
        ..UNSET
    },
];

/// The server of that name, one of [`all`].
///
/// # Errors
/// [`PeerError::UnknownAuthoritative`].
pub fn find(name: &str) -> Result<&'static Server, PeerError> {
    let found = all().iter().find(|server| server.name == name);
    found.ok_or_else(|| PeerError::UnknownAuthoritative(name.to_owned()))
}

/// Configures a server, starts it where `place` says, and waits until it answers `probe` rightly.
///
/// # Errors
/// Each [`PeerError`] but `Unknown`; nothing is left behind.
pub fn start(
    server: &Server,
    place: &Placement,
    mut settings: ZoneSettings,
    probe: &Probe,
    interrupted: &AtomicBool,
) -> Result<RunningPeer, PeerError> {
    if let Some(why) = server.by_hand {
        return Err(PeerError::Unsuitable(why.to_owned()));
    }
    start_with(server, place, probe, interrupted, |scratch| {
        settings.directory = scratch.path().to_path_buf();
        if let Some(account) = scratch.account() {
            settings.user = (account.name.clone(), account.gid.to_string());
        }
        server.prepare(&settings, scratch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_comes_with_its_reason() {
        let settings = ZoneSettings {
            listen: vec!["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:5300".parse().unwrap()],
            zone: "dns64perf.test".into(),
            zone_file: "/zones/dns64perf.test.zone".into(),
            workers: 2,
            directory: "/scratch".into(),
            device: Some("dut0".into()),
            buffer_octets: 1 << 22,
            rule: vec!["--names".into(), "10.0.0.0/16".into()],
            user: ("nobody".into(), "nogroup".into()),
        };
        for server in all().iter().filter(|server| server.package.is_some()) {
            let text = server.configuration(&settings);
            let comments = text.lines().filter(|line| line.trim_start().starts_with(['#', '/'])).count();
            assert!(comments >= 5, "{}:\n{text}", server.name);
            assert!(text.contains("/zones/dns64perf.test.zone"), "{}:\n{text}", server.name);
            assert!(find(server.name).is_ok_and(|found| found.name == server.name));
        }
        assert!(find("bnid").is_err_and(|error| error.to_string().contains("sextant, sextant-kernel, nsd")));
    }
}
