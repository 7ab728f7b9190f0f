//! AF_XDP for a server that has UDP sockets as well: a program on a device takes the datagrams for some of
//! them from the stack, and the server sends as if from them.
//!
//! The sockets hold the ports, and get whatever the program leaves: other devices, fragments, options, VLAN
//! tags, queues without a ring. A wrong decision of the program or of the server therefore costs time and
//! never an answer.

mod program;
mod repeats;
mod ring;
mod sequence;
mod table;

use std::sync::Arc;

use sys::bpf::{BpfError, Mode, Redirect, RedirectCounters, Shared};
use sys::link::{Device, addresses};
use sys::xdp::{HEADROOM_OCTETS, Queue, XdpError, bind_queue, check_capabilities, chunk_octets};

use program::BypassPlace;

pub use repeats::Repeatable;
use repeats::Repeats;
pub use ring::{Arrivals, Arrived, BypassRing};
pub use table::{BypassTable, CLASSES, PortClaim, RANGES_MAX};

/// Datagrams that all queues of a device together hold while their threads are busy, and what one queue holds
/// at most and at least. A thread that has lost its processor for 80 ms loses nothing at 100,000 a second:
/// sockets stand that, too.
const DEVICE_FRAMES: u32 = 16_384;
const QUEUE_FRAMES_MAX: u32 = 8192;
const QUEUE_FRAMES_MIN: u32 = 512;
/// Frames in flight towards the device, at most.
const SEND_SLOTS_MAX: u32 = 2048;

/// The program on a device. The device is free again when this is dropped, or the process ends in any way.
pub struct Bypass {
    redirect: Redirect,
    table: Arc<BypassTable>,
    /// Memory for answers that the program repeats, or why there is none.
    answers: Result<Option<Arc<Shared>>, BpfError>,
    workers: usize,
    device: Device,
    mac: [u8; 6],
    queues: usize,
    chunk_octets: u32,
    mtu_octets: usize,
}

impl Bypass {
    /// Puts the program on a device, in the network namespace of the calling thread. The receive queue k is
    /// worker `k % workers`'s. Nothing is taken from the stack until a ring is opened and the table has an
    /// entry. Without a mode, native is tried first, then generic. With `repeats` the program may be given
    /// answers to repeat.
    ///
    /// # Errors
    /// All that [`XdpError`] names but ports and memory.
    pub fn open(device: Device, workers: usize, mode: Option<Mode>, repeats: bool) -> Result<Self, XdpError> {
        check_capabilities()?;
        let ask = |error| XdpError::Io("asking the device for its properties", error);
        if hides_vlan(&device).map_err(ask)? {
            return Err(XdpError::HiddenTags(device.name));
        }
        let mac = device.hardware_address().map_err(ask)?;
        let queues = device.rx_queues().map_err(ask)?;
        let mtu_octets = device.mtu().map_err(ask)?;
        let chunk_octets = chunk_octets(ring::frame_octets(mtu_octets));
        let room = chunk_octets as usize - HEADROOM_OCTETS;
        let workers = workers.max(1);
        let answers = if repeats { repeats::answers_of_each(workers) } else { 0 };
        let place = BypassPlace::new(mac, workers, room, answers);
        let (redirect, maps) = program::attach(&device, &place, queues as u32, mode)?;
        let table = Arc::new(BypassTable::new(maps.table)?);
        let shared = |map| Shared::new(map, repeats::words(workers * answers)).map(Arc::new);
        let answers = maps.answers.and_then(|map| map.map(shared).transpose());
        Ok(Self { redirect, table, answers, workers, device, mac, queues, chunk_octets, mtu_octets })
    }

    /// Why answers cannot be repeated, though that was wanted.
    pub fn repeats_not(&self) -> Option<&BpfError> {
        self.answers.as_ref().err()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its receive queues.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// What is taken from the stack.
    pub fn table(&self) -> &Arc<BypassTable> {
        &self.table
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.redirect.mode()
    }

    /// The datagrams that came to a ring, and those left to the stack because their queue had none.
    pub fn counters(&self) -> RedirectCounters {
        self.redirect.counters()
    }

    /// Opens the ring of a queue, for the worker that it belongs to: from now on its datagrams come there.
    ///
    /// # Errors
    /// The queue is in use, the memory cannot be locked, the device went down.
    pub fn ring(&mut self, queue: u32) -> Result<BypassRing, XdpError> {
        let frames = DEVICE_FRAMES / self.queues.next_power_of_two() as u32;
        let frames = frames.clamp(QUEUE_FRAMES_MIN, QUEUE_FRAMES_MAX);
        let wanted = Queue {
            device: self.device.index,
            queue,
            receive_frames: frames,
            chunk_octets: self.chunk_octets,
            send_slots: (frames / 2).min(SEND_SLOTS_MAX),
            slot_octets: self.chunk_octets,
            copy: self.redirect.mode() == Mode::Generic,
        };
        let socket = bind_queue(&mut self.redirect, &self.device, &wanted)?;
        let frame_octets_max = ring::frame_octets(self.mtu_octets).min(self.chunk_octets as usize);
        let answers = self.answers.as_ref().ok().and_then(Option::as_ref);
        let repeats = answers.map(|shared| {
            let (worker, answers) = (queue as usize % self.workers, repeats::answers_of_each(self.workers));
            Repeats::new(shared.clone(), self.table.clone(), worker, answers)
        });
        Ok(BypassRing { socket, device: self.device.index, mac: self.mac, frame_octets_max, repeats })
    }
}

/// Whether the device carries VLANs and takes their tags off before a program can see them: then the program
/// takes frames of all VLANs for its own.
fn hides_vlan(device: &Device) -> std::io::Result<bool> {
    if !device.hides_vlan_tags()? {
        return Ok(false);
    }
    for assigned in addresses()?.iter().filter(|assigned| assigned.device != device.name) {
        if Device::named(&assigned.device)?.below_vlans()?.index == device.index {
            return Ok(true);
        }
    }
    Ok(false)
}
