//! The AuthDNS in the kernel: an XDP program that answers the usual queries of a zone by itself and passes
//! all others to the stack, and so to the sockets on the same port.

mod parameters;

use std::net::SocketAddr;
use std::os::fd::AsFd;

use zerocopy::IntoBytes;

pub use parameters::{HotAnswer, HotZone, SUFFIX_OCTETS_MAX};

use crate::objects;
pub(crate) use parameters::ServiceAddresses;
use parameters::Zone;
use sys::bpf::{Attached, BpfError, Counters, Mode, Object, ProgramFd, TestRun, attach, probe, run_once};
use sys::link::Device;

/// Addresses of one family that the program knows; it leaves the others to the sockets.
pub const ADDRESSES_MAX: usize = parameters::ADDRESSES;

/// What the program has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswererCounters {
    /// Questions for A answered.
    pub a: u64,
    /// Questions for AAAA answered with a record.
    pub aaaa: u64,
    /// Questions for AAAA answered with NODATA.
    pub no_data: u64,
    /// Datagrams to our addresses that were left to the sockets.
    pub passed: u64,
    /// Of those that it could answer, the ones whose frame had no room for it; left to the sockets.
    pub no_room: u64,
}

/// The program, loaded.
pub struct Answerer {
    program: ProgramFd,
    counters: Counters<5>,
}

/// The program on a device. It goes when this is dropped, and when the process dies.
pub struct AnswererOnDevice {
    counters: Counters<5>,
    attached: Attached,
    /// Held open so that `/proc/PID/fdinfo` shows how often the program ran.
    _program: ProgramFd,
    /// The device.
    pub device: Device,
}

impl Answerer {
    /// Loads the program for queries that come in frames to `mac` for the addresses `listen`, of which it
    /// takes the first [`ADDRESSES_MAX`] of each family. `redirects` says whether its answers leave by
    /// redirecting instead of `XDP_TX`.
    ///
    /// # Errors
    /// XDP is not available, or the kernel does not take the program.
    pub fn load(
        zone: &HotZone<'_>,
        listen: &[SocketAddr],
        mac: [u8; 6],
        redirects: bool,
    ) -> Result<Self, BpfError> {
        let mut object = load(zone, &ServiceAddresses::new(listen, mac, redirects), 0)?;
        let counters = object.counters("counters")?;
        Ok(Self { program: object.program_fd("authority")?, counters })
    }

    /// Runs the program on one frame, without a device.
    ///
    /// # Errors
    /// The kernel does not take the program or the frame: it has 14 octets at least and fits a page.
    pub fn run(&self, frame: &[u8]) -> Result<TestRun, BpfError> {
        let run = run_once(self.program.as_fd(), frame);
        run.map_err(|error| BpfError::Io { operation: "trying an XDP program", error })
    }

    /// What was counted so far.
    pub fn counters(&self) -> AnswererCounters {
        read(&self.counters)
    }
}

impl AnswererOnDevice {
    /// Loads the program and puts it on a device of the thread's network namespace. Without a mode, native is
    /// tried first, then generic.
    ///
    /// # Errors
    /// XDP is not available, or the device has no Ethernet, is occupied, takes no program, or sends no frames
    /// of one.
    pub fn start(
        zone: &HotZone<'_>,
        listen: &[SocketAddr],
        device: Device,
        mode: Option<Mode>,
    ) -> Result<Self, BpfError> {
        let ask = |error| BpfError::Io { operation: "asking the device for its properties", error };
        let mac = device.hardware_address().map_err(ask)?;
        let redirects = probe::is_needed(&device).map_err(ask)?;
        let mut object = load(zone, &ServiceAddresses::new(listen, mac, redirects), device.index)?;
        let counters = object.counters("counters")?;
        let program = object.program_fd("authority")?;
        let attached = attach(&program, device.index, mode)?;
        if redirects {
            probe::check(&object.program_fd("probe")?, &device, mac)?;
        }
        Ok(Self { counters, attached, _program: program, device })
    }

    /// What was counted so far.
    pub fn counters(&self) -> AnswererCounters {
        read(&self.counters)
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.attached.mode()
    }
}

fn load(zone: &HotZone<'_>, place: &ServiceAddresses, device: u32) -> Result<Object, BpfError> {
    let (zone, device) = (Zone::new(zone), device.to_ne_bytes());
    let globals: [(&str, &[u8]); 3] =
        [("zone", zone.as_bytes()), ("place", place.as_bytes()), ("device", &device)];
    Object::load("authority", objects::AUTHORITY, &globals, &[])
}

fn read(counters: &Counters<5>) -> AnswererCounters {
    let [a, aaaa, no_data, passed, no_room] = counters.read();
    AnswererCounters { a, aaaa, no_data, passed, no_room }
}
