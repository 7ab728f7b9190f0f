//! Where Tester, DUT and AuthDNS are, and the fastest back-ends of the Tester that work there.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use net::bpf::Attached;
use net::transport::Backend;

use super::progress::Progress;
use super::reach::{Unreached, reach};
use super::selftest::{Certification, direct_zone};
use super::tester::{Auth, MeasureError, Target, Tester};
use crate::authority::{Authority, AuthorityConfig, Io};
use crate::lab::network::{Lab, LabSpec, Role};

/// `--path`: which way the queries take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PathChoice {
    /// Through a lab where one can be made, else over the loopback device.
    #[default]
    Auto,
    /// Through a lab of three network namespaces joined by veth pairs, made for this run; needs root.
    Lab,
    /// Over the loopback device.
    Loopback,
}

/// Where the machines of the test are.
#[derive(Debug, PartialEq, Eq)]
pub enum Site {
    /// All on the loopback device of this namespace.
    Loopback,
    /// Each in a namespace of a lab, which is removed with this value, or by the next lab if this process is killed.
    Lab(Lab),
}

/// The port of the AuthDNS in a lab, where nobody else uses it.
const AUTH_PORT: u16 = 53;
/// The port of the DUT in a lab: it runs without privileges.
pub const DUT_PORT: u16 = 5300;
/// On this many processors and more the AuthDNS has one of its own.
const OWN_AUTH_PROCESSOR_FROM: usize = 4;

impl Site {
    /// Makes the site. Where a lab was not insisted on and cannot be, it is the loopback, and the reason.
    ///
    /// # Errors
    /// A lab was insisted on, and why it cannot be.
    pub fn make(choice: PathChoice) -> io::Result<(Self, Option<String>)> {
        if choice == PathChoice::Loopback {
            return Ok((Self::Loopback, None));
        }
        let name = format!("sextant-{}", std::process::id());
        match Lab::up(&LabSpec { name, ..LabSpec::default() }) {
            Ok(lab) => Ok((Self::Lab(lab), None)),
            Err(error) if choice == PathChoice::Auto => Ok((Self::Loopback, Some(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// The namespace of a machine; none on the loopback.
    pub fn namespace(&self, role: Role) -> Option<String> {
        match self {
            Self::Loopback => None,
            Self::Lab(lab) => Some(lab.namespace(role)),
        }
    }

    /// Does something where a machine is.
    ///
    /// # Errors
    /// Its namespace cannot be entered.
    pub fn at<T: Send>(&self, role: Role, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        net::netns::inside(self.namespace(role).as_deref(), work)
    }

    /// The device by which a machine is joined to another; none on the loopback.
    pub fn device(&self, role: Role, towards: Role) -> Option<String> {
        match self {
            Self::Loopback => None,
            Self::Lab(lab) => Some(lab.end(role, towards).device),
        }
    }

    /// The devices of the server under test; none on the loopback.
    pub fn dut_devices(&self) -> Vec<String> {
        [Role::Tester, Role::Auth].into_iter().filter_map(|towards| self.device(Role::Dut, towards)).collect()
    }

    /// Where the AuthDNS answers the Tester, over IPv6; port 0 is any free one.
    fn auth_for_tester(&self) -> SocketAddr {
        match self {
            Self::Loopback => (Ipv6Addr::LOCALHOST, 0).into(),
            Self::Lab(lab) => (lab.end(Role::Auth, Role::Tester).ipv6, AUTH_PORT).into(),
        }
    }

    /// Where the AuthDNS answers the DUT, over IPv4; likewise.
    pub fn auth_for_dut(&self) -> SocketAddr {
        match self {
            Self::Loopback => (Ipv4Addr::LOCALHOST, 0).into(),
            Self::Lab(lab) => (lab.end(Role::Auth, Role::Dut).ipv4, AUTH_PORT).into(),
        }
    }

    /// The address of the DUT for the Tester.
    pub fn dut(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv6Addr::LOCALHOST.into(),
            Self::Lab(lab) => lab.end(Role::Dut, Role::Tester).ipv6.into(),
        }
    }

    /// A veth takes what an XDP program at its other end sends only where it has one itself: holds one at `role`, if the
    /// AuthDNS answers by such a program and nothing else is there.
    ///
    /// # Errors
    /// XDP is not available, or the device has a program.
    pub fn hold_pass(&self, role: Role, io: Io) -> io::Result<Option<Attached>> {
        match self {
            Self::Lab(lab) if io != Io::Udp => lab.attach_pass(role, Role::Auth).map(Some),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "the loopback device",
            Self::Lab(_) => "a lab of network namespaces",
        })
    }
}

/// The back-ends to try, the fastest first, and the threads of the AuthDNS.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of the Measurer.
    pub backends: Vec<Backend>,
    /// Of the AuthDNS.
    pub auth_ios: Vec<Io>,
    /// Threads of the AuthDNS, 0 for the Measurer's first one; by default what the processors allow.
    pub auth_threads: Option<usize>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// The Tester looped back: the Measurer asks an AuthDNS that answers every AAAA itself.
pub struct Looped {
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
pub enum LoopError {
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
/// So often, as a datagram may get lost.
const TRIES: usize = 2;

/// Loops the Tester back with the first back-ends of both halves that answer each other; the Tester then has its own.
///
/// # Errors
/// None do, or the user ended it.
pub fn loop_back(
    site: &Site,
    tester: &mut Tester,
    target: &Target,
    wanted: &Wanted,
) -> Result<Looped, LoopError> {
    tester.namespace = site.namespace(Role::Tester);
    let (mut notes, mut usage) = (wanted.notes.clone(), false);
    for &io in &wanted.auth_ios {
        for &backend in &wanted.backends {
            tester.backend = backend;
            match attempt(site, tester, target, wanted, io) {
                Ok((auth, target, pass)) => return Ok(Looped { target, auth, notes, _pass: pass }),
                Err(Refused::Interrupted) => return Err(LoopError::Interrupted),
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
    Err(LoopError::Nothing { why: notes.join("; "), usage })
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
    wanted: &Wanted,
    io: Io,
) -> Result<(Auth, Target, Option<Attached>), Refused> {
    let listen = site.auth_for_tester();
    // What cannot ask there at all need not wait for an AuthDNS.
    let probed = Target { server: listen, pid: None, ..target.clone() };
    tester.io(&probed).map_err(|error| Refused::Pair(error.to_string()))?;
    if tester.backend == Backend::Kernel {
        // The trials that follow may ask for what the self-test does not.
        let refused = |error: MeasureError| Refused::Options(format!("--io kernel: {error}"));
        tester.check(&probed, TRYING.1, CHECKED_NS).map_err(refused)?;
    }
    let hosted = hosting(tester, io, wanted.auth_threads).map_err(Refused::Options)?;
    let auth = start_auth(site, tester, (target, listen), (io, hosted, wanted.auth_threads))?;
    let pass = site.hold_pass(Role::Tester, if tester.backend.has_sockets() { io } else { Io::Udp });
    let pass = pass.map_err(|error| Refused::Auth(error.to_string()))?;
    let target = Target { server: auth.authority.local_addrs()[0], ..probed };
    let both = format!("--io {} with --auth-io {io}", tester.backend.name());
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
fn hosting(tester: &Tester, io: Io, auth_threads: Option<usize>) -> Result<bool, String> {
    let can = tester.backend != Backend::Kernel && io == Io::Udp;
    match auth_threads {
        Some(0) if !can => Err(format!(
            "--auth-threads 0 is for sockets on both sides, not for --io {} with --auth-io {io}",
            tester.backend.name()
        )),
        Some(threads) => Ok(threads == 0),
        None => Ok(can && net::cpu::available().len() < OWN_AUTH_PROCESSOR_FROM),
    }
}

fn start_auth(
    site: &Site,
    tester: &Tester,
    (target, listen): (&Target, SocketAddr),
    (io, hosted, threads): (Io, bool, Option<usize>),
) -> Result<Auth, Refused> {
    let config = AuthorityConfig {
        listen: vec![listen],
        threads: threads.unwrap_or(1).max(1),
        cpus: auth_cpus(tester, io, hosted),
        tcp: None,
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

/// The processors of an AuthDNS's own threads: those that the Measurer leaves, where it works in them.
pub fn auth_cpus(tester: &Tester, io: Io, hosted: bool) -> Vec<usize> {
    if hosted || io == Io::Kernel {
        return Vec::new();
    }
    net::cpu::available().into_iter().filter(|cpu| !tester.cpus.contains(cpu)).collect()
}
