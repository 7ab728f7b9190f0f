//! All attacks at once, and a client meanwhile.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use campaign::{SECOND_NS, Target, Tester};
use engine::pacer::Model;
use engine::trial::Validity;
use engine::verdict::Limits;
use engine::workload::{Choice, Variation, WorkloadSpec};
use figures::attacks::{Client, NEAR_MS, NEAR_PCT, Together};
use hdrhistogram::Histogram;
use lab::network::Role;
use measurer::transport::{Backend, Sources};

use crate::crew::{self, Attack, Post, Shared};
use crate::site::{SERVER, Server, Site, prefix, suffix};
use crate::{connections, flood, stage, text};

/// The client's rate, in q/s. Between two queries the Measurer sleeps, which leaves the processor to the
/// attackers; at more than 3,000 q/s it would wait for the next one without sleeping.
const RATE_QPS: u64 = 1000;
/// Its queries for names that are cached, in percent.
const CACHED_PCT: u8 = 50;
const HOT_NAMES: u32 = 1000;
const SOURCE_PORTS: usize = 64;
const RECEIVE_BUFFER_OCTETS: usize = 8 << 20;
/// An answer is late after this (RFC 8219 9.2), in ns.
const TIMEOUT_NS: u64 = SECOND_NS;
/// The quiet phase lasts this part of the attacks.
const QUIET_PART: u32 = 10;
/// The zone that is forged and flooded, by its number.
const VICTIM: Range<u16> = 0..1;
/// The attacks run for so long before the client is measured.
const LEAD: Duration = Duration::from_secs(2);
/// What docs/security.md says that dns64d needs at most, with the configuration of [`crate::site`], in MiB.
const BOUND_MIB: f64 = 512.0;

const POSTS: [Post; 10] = [
    flood("strangers ask over UDP", Role::Tester, ("queries", 20_000.0), flood::strangers),
    flood(
        "a network asks for names that do not exist",
        Role::Tester,
        ("queries", 20_000.0),
        flood::random_names,
    ),
    flood("a forger answers for an upstream server", Role::Auth, ("packets", 20_000.0), flood::forge),
    paced("a network asks what is forged", Role::Tester, ("questions", 0.2), flood::ask_what_is_forged),
    paced("forged ICMP: closed ports, small MTU", Role::Auth, ("messages", 2_000.0), flood::icmp),
    paced("strangers hold connections", Role::Tester, ("connections", 200.0), connections::strangers),
    paced(
        "a network holds connections with half a message",
        Role::Tester,
        ("connections", 200.0),
        connections::slow,
    ),
    paced("handshakes that are left", Role::Tester, ("handshakes", 150.0), connections::handshakes),
    paced("a network replays chains of 120 labels", Role::Tester, ("queries", 330.0), flood::chains),
    paced("the operator reloads", Role::Dut, ("reloads", 0.1), flood::reload),
];

/// An attack that takes what is left of the processor: what is counted, and how many each second it must
/// reach.
const fn flood(
    what: &'static str,
    from: Role,
    (unit, least_per_s): (&'static str, f64),
    attack: Attack,
) -> Post {
    Post { what, from, unit, least_per_s, is_flood: true, attack }
}

/// An attack that keeps a pace of its own.
const fn paced(
    what: &'static str,
    from: Role,
    (unit, least_per_s): (&'static str, f64),
    attack: Attack,
) -> Post {
    Post { what, from, unit, least_per_s, is_flood: false, attack }
}

/// Measures a client before and during all attacks for this long.
///
/// # Errors
/// The lab or dns64d cannot be started, or dns64d has ended.
pub fn measure(site: &Site, length: Duration) -> io::Result<Together> {
    let authority = site.authority(None)?;
    let seen = stage::victims(site, VICTIM)?;
    stage::chains(site)?;
    let mut server = site.dns64d(VICTIM, "")?;
    let (mut tester, target) = (tester(site), target(&server)?);
    let (quiet, latency) = ask(&mut tester, &target, length / QUIET_PART)?;
    let quiet_ns = latency.value_at_quantile(0.5);
    let quiet = near(quiet, &latency, quiet_ns);
    let quiet_mib = server.peak_mib()?;
    eprintln!("  quiet: {quiet:?}");
    if quiet.near_pct < NEAR_PCT {
        let message = format!(
            "the machine is busy: before any attack, {:.1} % of the client's queries were answered in time, \
             and {NEAR_PCT:.0} % are needed to tell anything",
            quiet.near_pct
        );
        return Err(io::Error::other(message));
    }
    let shared = Shared::new(server.pid(), seen, length + 4 * LEAD);
    let (attackers, (attacked, latency)) = crew::attack(site, &shared, &POSTS, |_| {
        std::thread::sleep(LEAD);
        ask(&mut tester, &target, length)
    })?;
    // A run that was cut short leaves no record.
    site.goes_on()?;
    server.check_alive()?;
    let attacked = near(attacked, &latency, quiet_ns);
    eprintln!("  attacked: {attacked:?}");
    let counters = counters(&server)?;
    let peak_mib = server.peak_mib()?;
    let exit_code = server.end()?;
    drop(authority);
    Ok(Together {
        origin: text::origin(),
        duration_s: length.as_secs_f64(),
        rate_qps: RATE_QPS,
        cached_pct: CACHED_PCT,
        quiet,
        attacked,
        attackers,
        forged_taken: shared.taken.load(Ordering::Relaxed),
        quiet_mib,
        peak_mib,
        bound_mib: BOUND_MIB,
        exit_code,
        counters,
    })
}

/// The client with the share of its queries that were answered near the quiet median, in ns.
fn near(client: Client, latency: &Histogram<u64>, quiet_ns: u64) -> Client {
    let soon = latency.count_between(0, quiet_ns + (NEAR_MS * 1e6) as u64);
    Client { near_pct: 100.0 * soon as f64 / client.sent.max(1) as f64, ..client }
}

/// The counters that are not zero.
fn counters(server: &Server) -> io::Result<BTreeMap<String, u64>> {
    let mut counters = server.counters()?;
    counters.retain(|_, count| *count > 0);
    Ok(counters)
}

/// What the client saw in a trial of this length.
fn ask(tester: &mut Tester, target: &Target, length: Duration) -> io::Result<(Client, Histogram<u64>)> {
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let run = tester.trial(target, None, RATE_QPS, length_ns);
    let run = run.map_err(|error| io::Error::other(error.to_string()))?;
    let (trial, latency) = (&run.trial, run.latency_ns);
    let wrong = trial.invalid_reasons.iter().filter(|(reason, _)| reason.starts_with("wrong address"));
    let false_addresses = wrong.map(|(_, count)| count).sum();
    let at = |share: f64| latency.value_at_quantile(share) as f64 / 1e6;
    let client = Client {
        sent: trial.sent,
        valid: trial.valid,
        failed: trial.invalid - false_addresses,
        false_addresses,
        median_ms: at(0.5),
        p99_ms: at(0.99),
        near_pct: 0.0,
        late_p999_ms: Some(trial.schedule_error_ns.p999 as f64 / 1e6),
    };
    Ok((client, latency))
}

/// A Tester on the processor of all others, before the attackers there.
pub fn tester(site: &Site) -> Tester {
    Tester {
        cpus: vec![site.other_cpu()],
        backend: Backend::Udp,
        source_ports: SOURCE_PORTS,
        sources: Sources::default(),
        receive_buffer_octets: RECEIVE_BUFFER_OCTETS,
        next_name: 1 << 20,
        alone: true,
        stop: site.interrupted.clone(),
        watch: Arc::default(),
        namespace: Some(site.namespace(Role::Tester)),
    }
}

/// What the client asks: new names and cached ones, for AAAA, under a zone of A records.
fn target(server: &Server) -> io::Result<Target> {
    Ok(Target {
        pids: vec![server.pid()],
        ..target_of(Choice::Cached { share_pct: CACHED_PCT, hot_names: HOT_NAMES })?
    })
}

/// The same for any server at this place, with names of this choice.
///
/// # Errors
/// None: suffix and prefix are right.
pub fn target_of(choice: Choice) -> io::Result<Target> {
    Ok(Target {
        server: SERVER.into(),
        streams: None,
        workload: WorkloadSpec {
            names: "16.0.0.0/4".parse().map_err(io::Error::other)?,
            first_name: 0,
            suffix: suffix()?,
            prefix: prefix()?,
            native: None,
            edns_octets: None,
            variation: Variation { choice, ..Variation::default() },
        },
        timeout_ns: TIMEOUT_NS,
        listen_ns: TIMEOUT_NS,
        limits: Limits::for_timeout(TIMEOUT_NS),
        validity: Validity::Strict,
        load: Model::Constant,
        pids: Vec::new(),
        log: false,
        replay: None,
        connections_stand: false,
    })
}
