//! The certificate of RFC 8219 9.2.1: which rates this Tester may measure, and the evidence.
//!
//! [`store`] keeps certificates as files, [`machine`] tells this machine from others, [`fit`] says whether a certificate
//! holds for a measurement that is to come.

pub mod fit;
pub mod machine;
pub mod store;
mod words;

use std::net::SocketAddr;
use std::time::SystemTime;

use engine::record::{SelfTest, Settings, Trial};
use net::link::{Device, device_to};
use serde::{Deserialize, Serialize};

use super::site::Site;
use super::tester::{Auth, Target, Tester};
use crate::lab::network::Role;
pub use machine::Machine;

/// The version of the schema that this program writes.
pub const SCHEMA: u32 = 1;
/// The program, as certificates name it.
pub const TOOL: &str = concat!("sextant ", env!("CARGO_PKG_VERSION"));

/// What a passed self-test says, and of what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that tested itself, for example `sextant 0.1.0`.
    pub tool: String,
    /// RFC 3339, UTC.
    pub issued_utc: String,
    /// The highest rate that may be measured, in q/s.
    pub certified_qps: u64,
    /// The rate of the deciding trial: 2.2 times that.
    pub required_qps: u64,
    /// Replies counted within this time in seconds.
    pub timeout_s: f64,
    /// Length of the deciding trial in seconds.
    pub trial_s: f64,
    /// What it is about.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// How the Tester kept its schedule in the deciding trial, where more than a server's trial allows was amiss.
    pub pacing: String,
    /// The command line.
    pub command: Vec<String>,
    /// The trials, the deciding one last.
    pub trials: Vec<Trial>,
    /// SHA-256 of the file with zeros in this place: shows damage, and changes made by accident.
    pub digest: String,
}

/// What a certificate is about: it holds where these are the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// A hash of the program's file: builds of one version differ. Empty where it cannot be read.
    #[serde(default)]
    pub program: String,
    /// The machine.
    pub machine: Machine,
    /// The way of the queries.
    pub path: PathTaken,
    /// One half of the Tester.
    pub measurer: Measurer,
    /// The other half.
    pub auth: AuthHalf,
    /// What was asked.
    pub workload: Asked,
}

/// The way of the queries from the Measurer to the AuthDNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTaken {
    /// `lab`, `loopback`, or `server` for an AuthDNS that somebody else runs.
    pub kind: String,
    /// `IPv6` or `IPv4`.
    pub family: String,
    /// The address of such an AuthDNS; empty for our own.
    pub server: String,
    /// The Measurer's device.
    pub device: Option<DeviceFacts>,
    /// That of our AuthDNS.
    pub auth_device: Option<DeviceFacts>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// Its driver; empty where it has none.
    pub driver: String,
    /// The longest packet in octets.
    pub mtu_octets: usize,
    /// Receive queues.
    pub rx_queues: usize,
}

/// The Measurer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurer {
    /// Its back-end, with what was special about it.
    pub io: String,
    /// The processors of its threads, one each.
    pub cpus: Vec<usize>,
    /// Source ports.
    pub ports: usize,
    /// Receive buffer of each socket in octets.
    pub receive_buffer_octets: usize,
}

/// The AuthDNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthHalf {
    /// Its back-end and where its programs are; empty if it is not ours.
    pub io: String,
    /// Its threads; 0 where the Measurer's first thread did its work.
    pub threads: usize,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The zone.
    pub suffix: String,
    /// The range of names.
    pub names: String,
    /// The prefix of the addresses expected.
    pub prefix: String,
    /// Which answers counted.
    pub validity: String,
    /// Payload size of the OPT record, if there was one, in octets.
    pub edns_octets: Option<u16>,
    /// What was asked beside a AAAA query for each name, in words.
    pub others: String,
}

impl Conditions {
    /// Those of the Tester as it is set up now: the target is the AuthDNS of the self-test, `auth` it, if it is ours.
    pub fn now(
        site: Option<&Site>,
        tester: &Tester,
        target: &Target,
        auth: Option<(&Auth, usize)>,
        settings: &Settings,
    ) -> Self {
        let spec = &target.workload;
        let io = tester.io(target).unwrap_or_else(|_| tester.backend.name().to_owned());
        Self {
            program: machine::program(),
            machine: Machine::this(),
            path: PathTaken::now(site, tester, target.server),
            measurer: Measurer {
                io,
                cpus: tester.cpus.clone(),
                ports: tester.source_ports,
                receive_buffer_octets: tester.receive_buffer_octets,
            },
            auth: auth.map_or_else(AuthHalf::default, |(auth, threads)| AuthHalf {
                io: auth.authority.io_in_words().to_owned(),
                threads: if auth.hosted { 0 } else { threads },
            }),
            workload: Asked {
                suffix: settings.suffix.clone(),
                names: spec.names.to_string(),
                prefix: settings.prefix.clone(),
                validity: settings.validity.clone(),
                edns_octets: spec.edns_octets,
                others: settings.workload.clone(),
            },
        }
    }
}

impl PathTaken {
    fn now(site: Option<&Site>, tester: &Tester, server: SocketAddr) -> Self {
        let kind = match site {
            Some(Site::Lab(_)) => "lab",
            Some(Site::Loopback) => "loopback",
            None => "server",
        };
        let own = net::netns::inside(tester.namespace.as_deref(), || {
            device_to(server).ok().map(|device| DeviceFacts::of(&device))
        });
        let of_auth = |site: &Site| {
            let name = site.device(Role::Auth, Role::Tester)?;
            site.at(Role::Auth, || Device::named(&name).ok().map(|device| DeviceFacts::of(&device))).ok()?
        };
        Self {
            kind: kind.into(),
            family: if server.is_ipv6() { "IPv6" } else { "IPv4" }.into(),
            server: if site.is_none() { server.to_string() } else { String::new() },
            device: own.ok().flatten(),
            auth_device: site.and_then(of_auth),
        }
    }
}

impl PathTaken {
    /// Whether queries go the same way: to servers elsewhere by the same device, whatever their addresses.
    pub fn is_same_way(&self, other: &Self) -> bool {
        let elsewhere = self.kind == "server" && self.device.is_some();
        let server = if elsewhere { &other.server } else { &self.server };
        Self { server: server.clone(), ..self.clone() } == *other
    }
}

impl DeviceFacts {
    /// What is not known is empty.
    fn of(device: &Device) -> Self {
        Self {
            name: device.name.clone(),
            driver: device.driver().unwrap_or_default(),
            mtu_octets: device.mtu().unwrap_or_default(),
            rx_queues: device.rx_queues().unwrap_or_default(),
        }
    }
}

impl Certificate {
    /// The certificate of a self-test; `None` if it did not pass.
    pub fn of(selftest: &SelfTest, mut conditions: Conditions) -> Option<Self> {
        let deciding = selftest.trials.last().filter(|_| selftest.passed)?;
        if !selftest.names.is_empty() {
            conditions.workload.names.clone_from(&selftest.names);
        }
        // What the back-end did in the trial counts, not what it was meant to do.
        conditions.measurer.io.clone_from(&deciding.io);
        Some(Self {
            schema: SCHEMA,
            tool: TOOL.into(),
            issued_utc: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            certified_qps: selftest.certified_qps,
            required_qps: selftest.required_qps,
            timeout_s: selftest.timeout_s,
            trial_s: deciding.duration_s,
            conditions,
            pacing: selftest.pacing.clone(),
            command: std::env::args().collect(),
            trials: selftest.trials.clone(),
            digest: String::new(),
        })
    }
}
