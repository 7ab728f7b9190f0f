//! The Tester looped back: the fastest back-ends of Measurer and AuthDNS that work at a site.

use std::net::SocketAddr;
use std::time::Duration;

use authdns::{Authority, AuthorityConfig, ConnectionLimits, EncryptedConfig, Io, self_signed};
use lab::network::Role;
use measurer::transport::Backend;
use measurer::transport::stream::{Protocol, StreamConfig};
use sys::bpf::Attached;

use super::auth_threads::AuthThreads;
use super::progress::Progress;
use super::reach::{Unreached, reach};
use super::selftest::Certification;
use super::site::Site;
use super::target::{Auth, Target, direct_zone};
use super::tester::{MeasureError, Tester};

/// On this many processors and more the AuthDNS has one of its own.
const OWN_AUTH_PROCESSOR_FROM: usize = 4;

/// The back-ends to try, the fastest first, and the threads of the AuthDNS.
#[derive(Clone, Debug)]
pub struct BackendChoice {
    /// Of the Measurer.
    pub backends: Vec<Backend>,
    /// Of the AuthDNS.
    pub auth_ios: Vec<Io>,
    /// Threads of the AuthDNS.
    pub auth_threads: AuthThreads,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// The Tester looped back: the Measurer asks an AuthDNS that answers every AAAA itself.
pub struct Loopback {
    /// The AuthDNS.
    pub target: Target,
    /// Its other side.
    pub auth: Auth,
    /// What faster was not to be had, and why.
    pub notes: Vec<String>,
    /// Goes with the AuthDNS.
    _pass: Option<Attached>,
}

/// Why nothing works.
#[derive(Debug)]
pub enum LoopbackError {
    /// The user ended it.
    Interrupted,
    /// What was tried, in one line.
    Nothing {
        /// Why none of it works.
        why: String,
        /// The last was for other options to mend.
        usage: bool,
    },
}

/// How long the first trial is by which a back-end is tried, in ns, and its rate in q/s.
const TRYING: (u64, u64) = (Duration::from_millis(20).as_nanos() as u64, 1000);
/// Length of the trial that is only looked at, in ns: two queries, so that few names are enough.
const CHECKED_NS: u64 = TRYING.0 / 10;
/// Connections that the AuthDNS takes beside those of the Measurer and their successors.
const CONNECTIONS_SPARE: usize = 64;
/// So often, as a datagram may get lost.
const TRIES: usize = 2;

/// Loops the Tester back with the first back-ends of both halves that answer each other; the Tester then has
/// its own.
///
/// # Errors
/// None do, or the user ended it.
pub fn loop_back(
    site: &Site,
    tester: &mut Tester,
    target: &Target,
    wanted: &BackendChoice,
) -> Result<Loopback, LoopbackError> {
    tester.namespace = site.namespace(Role::Tester);
    let (mut notes, mut usage) = (wanted.notes.clone(), false);
    for &io in &wanted.auth_ios {
        for &backend in &wanted.backends {
            tester.backend = backend;
            match attempt(site, tester, target, wanted, io) {
                Ok((auth, target, pass)) => return Ok(Loopback { target, auth, notes, _pass: pass }),
                Err(Refused::Interrupted) => return Err(LoopbackError::Interrupted),
                Err(Refused::Pair(why)) => notes.push(why),
                Err(Refused::Options(why)) => {
                    usage = true;
                    notes.push(why);
                }
                Err(Refused::Auth(why)) => {
                    notes.push(why);
                    break;
                }
            }
        }
    }
    Err(LoopbackError::Nothing { why: notes.join("; "), usage })
}

enum Refused {
    Interrupted,
    /// The Measurer's back-end, or it with this AuthDNS.
    Pair(String),
    /// Options that do not go together with it.
    Options(String),
    /// The AuthDNS with any Measurer.
    Auth(String),
}

impl From<Unreached> for Refused {
    fn from(why: Unreached) -> Self {
        match why {
            Unreached::Interrupted => Self::Interrupted,
            Unreached::Tester(why) | Unreached::Server(why) => Self::Pair(why),
        }
    }
}

fn attempt(
    site: &Site,
    tester: &mut Tester,
    target: &Target,
    wanted: &BackendChoice,
    io: Io,
) -> Result<(Auth, Target, Option<Attached>), Refused> {
    let listen = site.auth_for_tester();
    // What cannot ask there at all need not wait for an AuthDNS.
    let probed = Target { server: listen, pids: Vec::new(), ..target.clone() };
    tester.io(&probed).map_err(|error| Refused::Pair(error.to_string()))?;
    if tester.backend == Backend::Kernel {
        // The trials that follow may ask for what the self-test does not.
        let refused = |error: MeasureError| Refused::Options(format!("--io kernel: {error}"));
        tester.check(&probed, TRYING.1, CHECKED_NS).map_err(refused)?;
    }
    // Connections are served by threads of the AuthDNS.
    let hosted =
        target.streams.is_none() && hosting(tester, io, &wanted.auth_threads).map_err(Refused::Options)?;
    let auth = start_auth(site, tester, (target, listen), (io, hosted, &wanted.auth_threads))?;
    let pass = site.hold_pass(Role::Tester, if tester.backend.has_sockets() { io } else { Io::Udp });
    let pass = pass.map_err(|error| Refused::Auth(error.to_string()))?;
    let encrypted = auth.authority.encrypted_addrs().first().map(|&(_, address)| address);
    let target = Target { server: encrypted.unwrap_or(auth.authority.local_addrs()[0]), ..probed };
    let both = match &target.streams {
        Some(streams) => format!("--transport {}", streams.protocol),
        None => format!("--io {} with --auth-io {io}", tester.backend.name()),
    };
    reach(&target, tester).map_err(|why| match Refused::from(why) {
        Refused::Pair(why) => Refused::Pair(format!("{both}: {why}")),
        other => other,
    })?;
    let certification = Certification {
        target: &target,
        auth: Some(&auth),
        rates_qps: TRYING.1..=TRYING.1,
        trial_ns: TRYING.0,
        progress: &Progress::new(true, &tester.watch),
    };
    for _ in 0..TRIES {
        match certification.look(tester, TRYING.1) {
            Ok(true) => return Ok((auth, target, pass)),
            Ok(false) if tester.stopped() => return Err(Refused::Interrupted),
            Ok(false) => {}
            Err(error) if error.is_usage() => return Err(Refused::Options(error.to_string())),
            Err(error) => return Err(Refused::Pair(format!("{both}: {error}"))),
        }
    }
    Err(Refused::Pair(format!("{both}: not every answer of a first trial came")))
}

/// Whether the Measurer's first thread does the AuthDNS's work.
fn hosting(tester: &Tester, io: Io, auth_threads: &AuthThreads) -> Result<bool, String> {
    let can = tester.backend != Backend::Kernel && io == Io::Udp;
    match auth_threads.count {
        Some(0) if !can => Err(format!(
            "--auth-threads 0 is for sockets on both sides, not for --io {} with --auth-io {io}",
            tester.backend.name()
        )),
        Some(threads) => Ok(threads == 0),
        None => {
            Ok(can && auth_threads.cpus.is_empty() && sys::cpu::available().len() < OWN_AUTH_PROCESSOR_FROM)
        }
    }
}

fn start_auth(
    site: &Site,
    tester: &Tester,
    (target, listen): (&Target, SocketAddr),
    (io, hosted, threads): (Io, bool, &AuthThreads),
) -> Result<Auth, Refused> {
    let (tcp, encrypted, limits) = match &target.streams {
        Some(streams) => connections(streams, listen).map_err(Refused::Auth)?,
        None => (false, None, ConnectionLimits::default()),
    };
    let config = AuthorityConfig {
        listen: vec![listen],
        threads: threads.number(),
        cpus: threads.processors(tester, io, hosted),
        tcp,
        encrypted,
        limits,
        io,
        device: site.device(Role::Auth, Role::Tester),
        ..AuthorityConfig::default()
    };
    let zone = direct_zone(target).map_err(Refused::Auth)?;
    let started = site.at(Role::Auth, || Authority::start(zone, &config));
    let authority = started
        .map_err(|error| Refused::Auth(error.to_string()))?
        .map_err(|error| Refused::Auth(format!("AuthDNS: {error}")))?;
    Ok(Auth { authority, hosted })
}

/// What the AuthDNS serves beside UDP for these connections: TCP or not, TLS, and how many it takes. Those
/// that end have their last answers to come, and the next ones are there already.
fn connections(
    streams: &StreamConfig,
    listen: SocketAddr,
) -> Result<(bool, Option<EncryptedConfig>, ConnectionLimits), String> {
    let limits = ConnectionLimits {
        connections: CONNECTIONS_SPARE + streams.connections * 4,
        ..ConnectionLimits::default()
    };
    if !streams.protocol.has_tls() {
        return Ok((true, None, limits));
    }
    // Another port, as the one of `listen` may be chosen.
    let listen = SocketAddr::new(listen.ip(), 0);
    let tls = self_signed(vec![listen.ip().to_string()]).map_err(|error| format!("AuthDNS: {error}"))?;
    let over = |protocol| if streams.protocol == protocol { vec![listen] } else { Vec::new() };
    let encrypted = EncryptedConfig {
        dot: over(Protocol::Dot),
        doh: over(Protocol::Doh),
        doq: over(Protocol::Doq),
        doh3: over(Protocol::Doh3),
        tls,
    };
    Ok((false, Some(encrypted), limits))
}
