//! The program that takes datagrams for the sockets of dns64d from the stack.

use std::io;

use sys::bpf::{BpfError, Map, Mode, Object, Redirect, probe};
use sys::link::Device;
use zerocopy::{Immutable, IntoBytes};

use crate::objects;

/// Where the program of a server with sockets is: `struct place` of `bpf/bypass.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Immutable, IntoBytes)]
pub(super) struct BypassPlace {
    /// Frames to other Ethernet addresses pass.
    mac: [u8; 6],
    padding: u16,
    /// The receive queue k is worker `k % workers`'s; at least 1.
    workers: u32,
    /// Longer frames pass.
    frame_octets_max: u32,
    /// Answers of each worker that can be repeated at one time, a power of two; 0 repeats none.
    answers: u32,
    /// Answers leave by a redirection to the device instead of `XDP_TX`.
    redirects: u32,
}

impl BypassPlace {
    /// On a device that sends what `XDP_TX` gives it. `workers` is at least 1; `answers` is a power of two or
    /// 0.
    pub(super) fn new(mac: [u8; 6], workers: usize, frame_octets_max: usize, answers: usize) -> Self {
        Self {
            mac,
            workers: workers as u32,
            frame_octets_max: frame_octets_max as u32,
            answers: answers as u32,
            ..Self::default()
        }
    }

    /// Loads the program for `queues` queues of the device.
    pub(super) fn load(&self, device: u32, queues: u32) -> Result<Object, BpfError> {
        let globals = [("place", self.as_bytes()), ("device", &device.to_ne_bytes()[..])];
        let answers = self.workers.saturating_mul(self.answers).max(1);
        let sizes = [("sockets", queues.max(1)), ("answers", answers)];
        Object::load("bypass", objects::BYPASS, &globals, &sizes)
    }
}

/// What the program of a server with sockets shares with it.
pub(super) struct BypassMaps {
    /// `struct table` of `bpf/bypass.bpf.c`.
    pub table: Map,
    /// The `struct answer`s of `bpf/repeat.h`, where there are any, or why answers of programs do not leave
    /// the device.
    pub answers: Result<Option<Map>, BpfError>,
}

/// Puts the program of a server with sockets on a device; all that it does not take passes.
///
/// # Errors
/// XDP is not available, or the device is missing, occupied or takes no program.
pub(super) fn attach(
    device: &Device,
    place: &BypassPlace,
    queues: u32,
    mode: Option<Mode>,
) -> Result<(Redirect, BypassMaps), BpfError> {
    let repeats = place.answers > 0;
    let redirects = repeats && probe::is_needed(device).map_err(asking)?;
    let place = BypassPlace { redirects: redirects.into(), ..*place };
    let mut object = place.load(device.index, queues)?;
    let (table, answers) = (object.take_map("table")?, object.take_map("answers")?);
    let tried = if redirects { Some(object.program_fd("probe")?) } else { None };
    let attached = Redirect::attach("bypass", object, device.index, mode)?;
    let leave = tried.map_or(Ok(()), |program| probe::check(&program, device, place.mac));
    Ok((attached, BypassMaps { table, answers: leave.map(|()| repeats.then_some(answers)) }))
}

fn asking(error: io::Error) -> BpfError {
    BpfError::Io { operation: "asking the device for its driver", error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::bpf::layout::{Layout, Member};

    #[test]
    fn the_place_is_laid_out_as_in_the_program() {
        sys::assert_layout!(
            objects::BYPASS,
            "place",
            BypassPlace { mac, padding, workers, frame_octets_max, answers, redirects }
        );
    }

    #[test]
    fn structs_are_found_with_their_members() {
        let range = Layout::of(objects::BYPASS, "range").unwrap();
        let member = |name: &str, offset, octets| Member { name: name.to_owned(), offset, octets };
        assert_eq!(range.members, [member("first", 0, 16), member("mask", 16, 16), member("family", 32, 8)]);
        assert_eq!((range.octets, range.offsets()[2]), (40, ("family", 32)));
        assert_eq!(Layout::of(objects::BYPASS, "nothing"), None);
    }
}
