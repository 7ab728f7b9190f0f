//! The IDs and ports of dns64d beside those of Unbound, as the AuthDNS sees them.

use std::io;
use std::time::Duration;

use authdns::{OBSERVED_QUERIES, Observer};
use campaign::SECOND_NS;
use engine::workload::Choice;
use figures::attacks::{Identified, Identifiers};
use lab::network::Role;
use lab::peers::{self, PeerSettings};

use crate::site::{AUTH, SERVER, Site, prefix, suffix};
use crate::{text, together};

/// Repetitions, the servers in turn.
const ROUNDS: usize = 5;
/// The length of one.
const LENGTH: Duration = Duration::from_secs(10);
/// What both servers answer with ease, in q/s.
const RATE_QPS: u64 = 2000;
const SERVERS: [&str; 2] = ["dns64d", "unbound"];

/// Measures both in turn.
///
/// # Errors
/// A server is not installed or cannot be started.
pub fn measure(site: &Site) -> io::Result<Identifiers> {
    let mut servers: Vec<Identified> = Vec::new();
    for name in SERVERS {
        let server = peers::find(name).map_err(io::Error::other)?;
        let version = peers::version(server).map_err(io::Error::other)?;
        servers.push(Identified { server: name.into(), version, ..Identified::default() });
    }
    for _ in 0..ROUNDS {
        for server in &mut servers {
            site.goes_on()?;
            observe(site, server)?;
        }
    }
    Ok(Identifiers { origin: text::origin(), rate_qps: RATE_QPS, duration_s: LENGTH.as_secs_f64(), servers })
}

fn observe(site: &Site, into: &mut Identified) -> io::Result<()> {
    let observer = Observer::asleep(OBSERVED_QUERIES);
    let _authority = site.authority(Some(observer.clone()))?;
    let server = peers::find(&into.server).map_err(io::Error::other)?;
    let mut settings =
        PeerSettings::new(SERVER.into(), AUTH.into(), prefix()?, suffix()?, vec![site.cpus[0]]);
    settings.namespace = Some(site.namespace(Role::Dut));
    let probe = Site::probe()?;
    let start = || peers::start(server, settings, &probe, &site.interrupted);
    let running = sys::netns::within(&site.namespace(Role::Tester), start)?.map_err(io::Error::other)?;
    observer.watch(true);
    let length_ns = LENGTH.as_secs() * SECOND_NS;
    let target = together::target_of(Choice::Each)?;
    let tried = together::tester(site).trial(&target, None, RATE_QPS, length_ns);
    let sent = tried.map_err(|error| io::Error::other(error.to_string()))?.trial.sent;
    observer.watch(false);
    running.stop();
    let seen = observer.take().analyse(Some(sent));
    into.queries.push(seen.ids.count as f64);
    into.ids.push(seen.ids.distinct as f64);
    into.ports.push(seen.ports.distinct as f64);
    into.ids_hidden.push(seen.spoofing.ids);
    into.ports_hidden.push(seen.spoofing.ports);
    into.even_chance_bits.push(seen.spoofing.answers_for_even_chance.log2());
    for finding in seen.findings.into_iter().filter(|finding| finding.weak) {
        if !into.weak.contains(&finding.text) {
            into.weak.push(finding.text);
        }
    }
    eprintln!("  {}: {} IDs, {} ports", into.server, seen.ids.distinct, seen.ports.distinct);
    Ok(())
}
