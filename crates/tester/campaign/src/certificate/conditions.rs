//! The conditions of a self-test in words.

use std::fs;
use std::net::SocketAddr;

use measurer::transport::stream::StreamConfig;
use record::number::plural;
use record::{Settings, Transport};
use serde::{Deserialize, Serialize};
use sys::link::{Device, device_to};

use super::store::sha256;
use crate::auth_threads::AuthThreads;
use crate::site::Site;
use crate::target::{Auth, Target, transport_of};
use crate::tester::Tester;
use lab::environment::Manifest;
use lab::network::Role;

/// The identity of this boot (`random(4)`), which no other machine and no other boot has.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The program of this process (`proc(5)`).
const PROGRAM: &str = "/proc/self/exe";
/// Hexadecimal digits of a hash that are kept.
const HASH_DIGITS: usize = 32;

/// What a certificate is about, each in words. It holds where all of these read the same. The range of names
/// and the prefix are not among them: which ones they are makes no difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Version and a hash of the program's file: builds of one version differ.
    pub program: String,
    /// A hash of the boot's identity; empty where it cannot be read, and then no certificate holds.
    pub boot: String,
    /// Kernel, processors, and what virtualizes them.
    pub machine: String,
    /// The path of the queries: `lab`, `loopback`, or `server` for an AuthDNS that somebody else runs.
    pub path: String,
    /// The address family and the network devices on that path.
    pub link: String,
    /// The Measurer's back-end, with what is special about it; `tcp` or another transport where it asks by
    /// connections.
    pub io: String,
    /// The Measurer's threads, and its ports and buffers or its connections.
    pub measurer: String,
    /// The AuthDNS's back-end and threads.
    pub auth: String,
    /// What is asked, and which answers count.
    pub queries: String,
}

impl Conditions {
    /// Those of the Tester as it is set up now: the target is the AuthDNS of the self-test, `auth` it and its
    /// threads, if it is ours.
    pub fn now(
        site: Option<&Site>,
        tester: &Tester,
        target: &Target,
        auth: Option<(&Auth, AuthThreads)>,
        settings: &Settings,
    ) -> Self {
        let opt = target.workload.edns_octets.map(|octets| format!("OPT of {octets} octets"));
        let opt = opt.unwrap_or_else(|| "no OPT".to_owned());
        let Settings { suffix, workload, validity, .. } = settings;
        let others = if workload.is_empty() { String::new() } else { format!(", {workload}") };
        let Tester { cpus, source_ports, receive_buffer_octets, .. } = tester;
        let ways = match &target.streams {
            Some(streams) => connections(streams),
            None => {
                let ports = plural(*source_ports, "source port", "source ports");
                format!("{ports}, buffers of {receive_buffer_octets} octets")
            }
        };
        Self {
            program: program(),
            boot: fs::read(BOOT).map(|boot| hash(&boot)).unwrap_or_default(),
            machine: machine(),
            path: match site {
                Some(Site::Lab(_)) => "lab",
                Some(Site::Loopback) => "loopback",
                None => "server",
            }
            .to_owned(),
            link: link(site, tester, target.server),
            io: tester.io(target).unwrap_or_else(|_| tester.backend.name().to_owned()),
            measurer: format!("threads on processors {cpus:?}, {ways}"),
            auth: match auth {
                None => "elsewhere".to_owned(),
                Some((auth, _)) if auth.hosted => {
                    format!("{}, in the Measurer's first thread", auth.authority.io_in_words())
                }
                Some((auth, threads)) => format!("{}, {threads}", auth.authority.io_in_words()),
            },
            queries: format!("AAAA below {suffix}, {opt}{others}; answers {validity}"),
        }
    }

    /// The conditions with what a person calls them.
    pub fn rows(&self) -> [(&'static str, &str); 9] {
        let Self { program, boot, machine, path, link, io, measurer, auth, queries } = self;
        [
            ("program", program),
            ("boot", boot),
            ("machine", machine),
            ("path", path),
            ("link", link),
            ("back-end of the Measurer", io),
            ("Measurer", measurer),
            ("AuthDNS", auth),
            ("queries", queries),
        ]
    }

    /// The first of these conditions that is another one now.
    pub(super) fn difference(&self, now: &Self) -> Option<String> {
        if self.boot != now.boot || now.boot.is_empty() {
            return Some("it was made before the last boot, or on another machine".to_owned());
        }
        let both = self.rows().into_iter().zip(now.rows());
        let (what, then, now) =
            both.map(|((what, then), (_, now))| (what, then, now)).find(|(_, then, now)| then != now)?;
        Some(format!("its {what} was '{then}', and now it is '{now}'"))
    }
}

/// How connections are used. Which certificate the server must have makes no difference.
fn connections(streams: &StreamConfig) -> String {
    let transport = transport_of(streams);
    let queries = transport.queries_in_words();
    let Transport { protocol, connections, pipelined, idle_s, resumption, .. } = transport;
    let number = plural(connections, "connection", "connections");
    let mut text = format!("{number} over {protocol}");
    if let Some(queries) = queries {
        text += &format!(", {queries}");
    }
    text += if pipelined { ", pipelined" } else { ", one query at a time" };
    if let Some(idle_s) = idle_s {
        text += &format!(", closed after {idle_s} s without a query");
    }
    if resumption {
        text += ", sessions resumed";
    }
    text
}

/// The version, and a hash of the file that this process runs, also where another has taken its name.
fn program() -> String {
    let file = fs::read(PROGRAM).map_or_else(|_| "unknown".to_owned(), |octets| hash(&octets));
    format!("sextant {}, file {file}", env!("CARGO_PKG_VERSION"))
}

fn hash(octets: &[u8]) -> String {
    sha256(octets)[..HASH_DIGITS].to_owned()
}

fn machine() -> String {
    let Manifest { processor, kernel_release, hypervisor, .. } = Manifest::take();
    let model = processor.model.as_deref().unwrap_or("processor");
    let hypervisor = hypervisor.map(|name| format!(", virtual ({name})")).unwrap_or_default();
    format!(
        "{} x {model}, usable {:?}{hypervisor}, kernel {kernel_release}",
        processor.online, processor.usable
    )
}

/// The address family, and the devices of the Measurer and of our AuthDNS. Of a server elsewhere the device
/// on the way counts, and its address only where the device is unknown.
fn link(site: Option<&Site>, tester: &Tester, server: SocketAddr) -> String {
    let own = sys::netns::inside(tester.namespace.as_deref(), || {
        device_to(server).ok().map(|device| in_words(&device))
    });
    let own = own.ok().flatten();
    let address = if site.is_none() && own.is_none() { Some(server.to_string()) } else { None };
    let of_auth = site.and_then(|site| {
        let name = site.device(Role::Auth, Role::Tester)?;
        site.at(Role::Auth, || Device::named(&name).ok().map(|device| in_words(&device))).ok()?
    });
    let family = if server.is_ipv6() { "IPv6" } else { "IPv4" };
    [Some(family.to_owned()), address, own, of_auth].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn in_words(device: &Device) -> String {
    let driver = device.driver().map(|driver| format!("{driver}, ")).unwrap_or_default();
    let queues = plural(device.rx_queues().unwrap_or_default(), "queue", "queues");
    format!("{} ({driver}{} octets, {queues})", device.name, device.mtu().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_is_hashed_and_the_program_is_known_by_its_file() {
        let boot = fs::read(BOOT).unwrap();
        assert!(hash(&boot).len() == HASH_DIGITS && !boot.starts_with(&hash(&boot).as_bytes()[..8]));
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(program().ends_with(&format!("file {}", hash(&own))));
    }
}
