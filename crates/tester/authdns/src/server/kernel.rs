//! The AuthDNS in the kernel: which program goes on which device for which addresses.

use std::io;
use std::net::SocketAddr;

use crate::kernel_program::{AnswererCounters, AnswererOnDevice, HotZone, SUFFIX_OCTETS_MAX};
use sys::bpf::BpfError;
use sys::link::{self, Assigned, Device};

use super::AuthorityConfig;
use super::backend::IoRefusal;
use crate::counters::Traffic;
use crate::faults::Faults;
use crate::zone::Zone;

/// The programs on all devices. They go when this is dropped.
pub(super) struct KernelService {
    programs: Vec<AnswererOnDevice>,
}

/// A device with the addresses that are asked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub device: Device,
    pub addresses: Vec<SocketAddr>,
}

impl KernelService {
    /// Puts a program on each device that has one of the addresses, or on the one named.
    ///
    /// # Errors
    /// Why not, in one line. Nothing is left on any device then.
    pub fn start(zone: &Zone, listen: &[SocketAddr], config: &AuthorityConfig) -> Result<Self, IoRefusal> {
        let usual = usual(zone, config)?;
        let faults = config.faults.as_deref();
        let hot = HotZone {
            fault_threshold: faults.map_or(0, threshold),
            fault_seed: faults.map_or(0, Faults::seed),
            ..usual
        };
        let start = |site: Site| {
            AnswererOnDevice::start(&hot, &site.addresses, site.device, None).map_err(|error| advise(&error))
        };
        let programs =
            sites(listen, config.device.as_deref())?.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { programs })
    }

    /// The devices and how the programs run there.
    pub fn places(&self) -> String {
        let place = |program: &AnswererOnDevice| format!("{} XDP on {}", program.mode(), program.device.name);
        self.programs.iter().map(place).collect::<Vec<_>>().join(", ")
    }

    /// What the programs have answered. What they left to the sockets is counted there.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for AnswererCounters { a, aaaa, no_data, .. } in self.programs.iter().map(AnswererOnDevice::counters)
        {
            sum.queries_a += a;
            sum.queries_aaaa += aaaa + no_data;
            sum.answers += a + aaaa + no_data;
        }
        sum
    }

    /// Queries to our addresses that the programs left to the sockets, and those of them whose frames had no
    /// room for the answer.
    pub fn passed(&self) -> (u64, u64) {
        let counters = self.programs.iter().map(AnswererOnDevice::counters);
        counters.fold((0, 0), |(passed, no_room), counters| {
            (passed + counters.passed + counters.no_room, no_room + counters.no_room)
        })
    }
}

/// What the program answers from, if it can.
fn usual<'z>(zone: &'z Zone, config: &AuthorityConfig) -> Result<HotZone<'z>, IoRefusal> {
    if config.in_threads {
        return Err(refused("runs on the processors that receive the queries, not in chosen threads"));
    }
    let Some(hot) = zone.hot_zone() else {
        return Err(refused("knows one address for each name, and no fixed records"));
    };
    let octets = hot.suffix.len();
    if octets > SUFFIX_OCTETS_MAX {
        let suffix = &zone.config().suffix;
        return Err(IoRefusal::Usage(format!(
            "suffix '{suffix}' has {octets} octets in a message, the XDP program takes {SUFFIX_OCTETS_MAX}; choose a \
             shorter one or --io udp"
        )));
    }
    if config.observer.as_ref().is_some_and(|observer| observer.is_watching()) {
        return Err(refused("cannot note the queries that it answers"));
    }
    if let Some(fault) = config.faults.as_deref().and_then(Faults::first_conditional) {
        let kind = fault.effect.kind();
        return Err(refused(&format!("does not know the names or types that a fault is bound to ({kind})")));
    }
    Ok(hot)
}

fn refused(reason: &str) -> IoRefusal {
    IoRefusal::Usage(format!("the XDP program {reason}; use --io xdp or udp"))
}

/// Below which draws a fault may meet a query, of 2^32.
fn threshold(faults: &Faults) -> u64 {
    match faults.threshold() {
        u32::MAX => 1 << 32,
        threshold => threshold.into(),
    }
}

/// A refusal with what to do.
pub(super) fn advise(error: &BpfError) -> IoRefusal {
    match error {
        BpfError::Occupied { .. } | BpfError::Capabilities(_) => IoRefusal::Device(error.to_string()),
        BpfError::Unsupported { .. } => {
            IoRefusal::Device(format!("{error}; use --io udp, or another device"))
        }
        _ => IoRefusal::Environment(format!("{error}; or use --io udp")),
    }
}

/// Which devices have which of the addresses. The wildcard addresses stand for all of their family; with a
/// device named, all is asked there.
pub(super) fn sites(listen: &[SocketAddr], device: Option<&str>) -> Result<Vec<Site>, IoRefusal> {
    let look = |error: io::Error| {
        IoRefusal::Environment(format!("looking for the devices of the addresses: {error}"))
    };
    let assigned = link::addresses().map_err(look)?;
    if let Some(name) = device {
        let device = Device::named(name).map_err(|error| IoRefusal::Usage(format!("--device: {error}")))?;
        device.hardware_address().map_err(|error| no_ethernet(&error))?;
        let addresses = listen.iter().flat_map(|&listen| {
            let any = matching(listen, &assigned)
                .map(move |assigned| SocketAddr::new(assigned.address, listen.port()));
            let explicit = (!listen.ip().is_unspecified()).then_some(listen);
            any.filter(move |_| explicit.is_none()).chain(explicit)
        });
        return Ok(vec![Site { addresses: addresses.collect(), device }]);
    }
    let mut sites: Vec<Site> = Vec::new();
    let mut without = None;
    for &listen in listen {
        for found in matching(listen, &assigned) {
            let device = match device_below(found).map_err(look)? {
                Ok(device) => device,
                // The sockets have this address.
                Err(refusal) => {
                    without = Some(refusal);
                    continue;
                }
            };
            let address = SocketAddr::new(found.address, listen.port());
            match sites.iter_mut().find(|site| site.device == device) {
                Some(site) => site.addresses.push(address),
                None => sites.push(Site { device, addresses: vec![address] }),
            }
        }
    }
    match (sites.is_empty(), without) {
        (false, _) => Ok(sites),
        (true, Some(refusal)) => Err(refusal),
        (true, None) => {
            let reason = "no device has one of the addresses; name it with --device, or use --io udp";
            Err(IoRefusal::Usage(reason.to_owned()))
        }
    }
}

/// The device where a program sees the frames to an address as they were sent, or why there is none.
fn device_below(found: &Assigned) -> io::Result<Result<Device, IoRefusal>> {
    let own = Device::named(&found.device)?;
    let device = own.below_vlans()?;
    Ok(match device.hardware_address() {
        Err(error) => Err(no_ethernet(&error)),
        Ok(_) if device != own && device.hides_vlan_tags()? => Err(hidden_tags(&own, &device)),
        Ok(_) => Ok(device),
    })
}

fn no_ethernet(error: &io::Error) -> IoRefusal {
    IoRefusal::Usage(format!("{error}: listen on an address of an Ethernet device, or use --io udp"))
}

fn hidden_tags(vlan: &Device, below: &Device) -> IoRefusal {
    let (vlan, below) = (&vlan.name, &below.name);
    IoRefusal::Usage(format!(
        "{below} takes off the VLAN tags of {vlan} before an XDP program sees them: switch that off ('ethtool -K {below} \
         rxvlan off', of a veth also 'txvlan off' at its peer), or use --device {vlan}, or --io udp"
    ))
}

/// The addresses of this machine that an address to listen on stands for.
fn matching(listen: SocketAddr, assigned: &[Assigned]) -> impl Iterator<Item = &Assigned> {
    let ip = listen.ip();
    assigned.iter().filter(move |assigned| {
        let same_family = assigned.address.is_ipv4() == ip.is_ipv4();
        assigned.address == ip || ip.is_unspecified() && same_family && !assigned.address.is_loopback()
    })
}
