//! Datagrams past the kernel's stack, by AF_XDP: the devices, what they take, and who watches that it stays
//! right.
//!
//! Every address and port has its ordinary UDP socket as well. The socket carries what AF_XDP does not: other
//! devices, a next hop that is not known yet, answers that do not fit into a frame, a full ring.

mod counts;
mod queries;
mod repeating;
mod rings;
mod watch;
mod way;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bypass::Bypass as DeviceBypass;
use sys::link::Device;
use sys::xdp::XdpError;

use super::ServerError;
use super::ports::UpstreamSocket;
use crate::config::{Config, Level, ListenProtocol, UpstreamServer};
use crate::log::Log;
use crate::snapshot::Metric;
use counts::Counts;
pub(super) use queries::Queries;
pub(super) use repeating::Given;
pub(super) use rings::Rings;
use watch::{RouteWatcher, WatchedRoutes};

/// The programs on the devices. They are taken off when this is dropped, or the process ends in any way.
pub(super) struct Bypass {
    // Declared before the devices: it ends first.
    watch: RouteWatcher,
    counts: Vec<Arc<Counts>>,
    log: Log,
    _devices: Vec<DeviceBypass>,
}

impl Bypass {
    /// Puts the programs on the devices and opens the rings: for each thread those of its queues. Nothing
    /// comes by them before [`Bypass::listen`]. `None` without devices in the configuration; the rings are
    /// empty then.
    ///
    /// # Errors
    /// A device that is not there or takes no program, missing capabilities, memory that cannot be locked.
    pub fn open(
        config: &Config,
        threads: usize,
        log: &Log,
    ) -> Result<(Option<Self>, Vec<Rings>), ServerError> {
        let mut rings: Vec<Rings> = (0..threads).map(|_| Rings::default()).collect();
        if !config.xdp.is_on() {
            return Ok((None, rings));
        }
        let devices = config.xdp.devices.iter();
        let devices: Vec<DeviceBypass> = devices
            .map(|name| open_device(name, config.xdp.repeat, &mut rings, log))
            .collect::<Result<_, _>>()?;
        let give_up = || crate::privileges::after_programs(&config.process);
        give_up().map_err(|error| ServerError::System("give up capabilities", error))?;
        let watched = devices.iter().map(|device| (device.device().clone(), device.table().clone()));
        let watch = RouteWatcher::start(WatchedRoutes::new(watched.collect()), config.process.clone())?;
        for (worker, rings) in rings.iter_mut().enumerate() {
            rings.own(worker, watch.watched().tables());
        }
        let counts = rings.iter().map(|rings| rings.counts().clone()).collect();
        Ok((Some(Self { watch, counts, log: log.clone(), _devices: devices }), rings))
    }

    /// Takes the queries to these listeners from the stack, and no others, from now on.
    pub fn listen(&self, addresses: &[(ListenProtocol, SocketAddr)]) {
        let plain = addresses.iter().filter(|(protocol, _)| *protocol == ListenProtocol::Plain);
        self.watch.watched().listen(plain.map(|&(_, address)| address).collect());
    }

    /// Has the programs repeat what this generation answers from the cache, if its configuration lets them.
    pub fn repeat(&self, config: &Config, generation: u64) {
        let reason = repeating::reason_against(config);
        for table in self.watch.watched().tables() {
            // Ranges are counted among the reasons.
            match reason {
                None => drop(table.repeat_to(&config.settings.allow, first_epoch(generation))),
                Some(_) => table.stop_repeating(),
            }
        }
        if let Some(reason) = reason {
            let words =
                format_args!("the programs on the devices repeat no cached answers, because {reason}");
            self.log.event(Level::Info, "xdp", words, &[]);
        }
    }

    /// Has them repeat nothing of what was answered until now.
    pub fn forget(&self) {
        self.watch.watched().tables().iter().for_each(|table| table.forget());
    }

    /// Has them repeat nothing, until [`Bypass::repeat`] is called again.
    pub fn stop_repeating(&self) {
        self.watch.watched().tables().iter().for_each(|table| table.stop_repeating());
    }

    /// For each thread what it needs to ask past the stack; its sockets are `sockets[thread][server]`.
    pub fn queries(&self, config: &Config, sockets: &[Vec<Vec<UpstreamSocket>>]) -> Vec<Queries> {
        let watched = self.watch.watched();
        let own = |upstream: usize| Some(sockets.first()?.get(upstream)?.first()?.address.ip());
        // Where each socket has an address of its own, the sockets do it: a way is from one address.
        let goes_past = |server: &UpstreamServer| config.xdp.upstreams && server.source_bits() == 0;
        let way = |(upstream, server): (usize, &UpstreamServer)| {
            let own = own(upstream).filter(|_| goes_past(server))?;
            Some(watched.way(server.address, own))
        };
        let ways: Vec<_> = config.upstreams.iter().enumerate().map(way).collect();
        let threads = sockets.iter().enumerate();
        threads
            .map(|(worker, sockets)| Queries::new(worker, &ways, sockets, watched.device_tables()))
            .collect()
    }

    pub fn readings(&self) -> Vec<Metric> {
        counts::readings(&self.counts)
    }
}

/// The upper half of an epoch is the generation whose answers are repeated; what is forgotten counts in the
/// lower.
const GENERATION_SHIFT: u32 = 32;

fn first_epoch(generation: u64) -> u64 {
    generation << GENERATION_SHIFT | 1
}

fn is_of(epoch: u64, generation: u64) -> bool {
    epoch != 0 && epoch >> GENERATION_SHIFT == generation
}

/// Puts the program on a device, hands each thread the rings of its queues, and says so.
fn open_device(
    name: &str,
    repeats: bool,
    rings: &mut [Rings],
    log: &Log,
) -> Result<DeviceBypass, ServerError> {
    let refused = |error: XdpError| ServerError::Xdp(name.to_owned(), error);
    let device = Device::named(name).map_err(|error| refused(XdpError::Io("looking for it", error)))?;
    let mut bypass = DeviceBypass::open(device, rings.len(), None, repeats).map_err(refused)?;
    let (queues, threads) = (bypass.queues(), rings.len());
    let mut zero_copy = true;
    for queue in 0..queues {
        let ring = bypass.ring(queue as u32).map_err(refused)?;
        zero_copy &= ring.is_zero_copy();
        rings[queue % threads].push(ring);
    }
    let copies = if zero_copy { "zero copy" } else { "copying" };
    let words = format_args!(
        "AF_XDP is in use: {} mode, {copies}, receive queues: {queues}, threads: {threads}",
        bypass.mode()
    );
    log.event(Level::Info, "xdp", words, &[("device", &name)]);
    if let Some(error) = bypass.repeats_not() {
        let words = format_args!("the program repeats no cached answers: {error}");
        log.event(Level::Warning, "xdp", words, &[("device", &name)]);
    }
    Ok(bypass)
}
