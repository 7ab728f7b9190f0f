//! A reflector in the kernel: every DNS query to a port goes back as an empty response, without a socket.

use std::sync::atomic::Ordering;

use sys::bpf::{Attached, BpfError, Counters, Mode, Object, Shared, attach};

use crate::objects;

/// A reflector on a device. It goes when this is dropped, and when the process dies.
pub struct Reflector {
    counters: Counters<4>,
    series: Shared,
    attached: Attached,
}

/// What a reflector has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorCounters {
    /// Queries sent back.
    pub reflected: u64,
    /// Responses to the port, left to the stack: two reflectors would send them to and fro for ever.
    pub responses: u64,
    /// Datagrams that are no DNS message, cut short or longer than 1,472 octets, left to the stack.
    pub unfit: u64,
    /// Queries reflected after the end of the series.
    pub after_series: u64,
}

/// The length of the series in ms: 17 minutes.
const SERIES_MS: u32 = 1 << 20;

impl Reflector {
    /// Reflects DNS queries to `port` that come in at a device, over IPv4 and IPv6, whatever their address.
    /// Without a mode, native is tried first, then generic. On a veth, the peer needs an XDP program, too
    /// ([`attach_pass`](sys::bpf::attach_pass)), or the answers vanish.
    ///
    /// # Errors
    /// XDP is not available, or the device is missing, occupied or takes no program.
    pub fn start(device: u32, port: u16, mode: Option<Mode>) -> Result<Self, BpfError> {
        Self::with_series(device, port, mode, 0)
    }

    /// The same, noting when the queries come: [`Reflector::series`]. Reading the clock for each takes some
    /// of its speed.
    ///
    /// # Errors
    /// Those of [`Reflector::start`].
    pub fn start_timed(device: u32, port: u16, mode: Option<Mode>) -> Result<Self, BpfError> {
        Self::with_series(device, port, mode, SERIES_MS)
    }

    fn with_series(device: u32, port: u16, mode: Option<Mode>, series_ms: u32) -> Result<Self, BpfError> {
        let globals: [(&str, &[u8]); 2] =
            [("port", &port.to_be_bytes()), ("series_ms", &series_ms.to_ne_bytes())];
        let entries = series_ms.max(1);
        let mut object = Object::load("reflector", objects::REFLECTOR, &globals, &[("series", entries)])?;
        let counters = object.counters("counters")?;
        let series = Shared::new(object.take_map("series")?, entries as usize)?;
        let attached = attach(&object.program_fd("reflector")?, device, mode)?;
        Ok(Self { counters, series, attached })
    }

    /// What was counted so far.
    pub fn counters(&self) -> ReflectorCounters {
        let [reflected, responses, unfit, after_series] = self.counters.read();
        ReflectorCounters { reflected, responses, unfit, after_series }
    }

    /// Of a timed one: the queries that came in each millisecond since the first one, up to the last that
    /// brought any; at most 17 minutes. The times are the kernel's (`CLOCK_MONOTONIC`), so this judges the
    /// pacing of any sender.
    pub fn series(&self) -> Vec<u64> {
        let queries = self.series.words().iter().map(|queries| queries.load(Ordering::Relaxed));
        let mut series: Vec<u64> = queries.collect();
        let length = series.iter().rposition(|&queries| queries > 0).map_or(0, |last| last + 1);
        series.truncate(length);
        series
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.attached.mode()
    }
}
