//! Whether frames that a program redirects to a device leave there: a veth drops them, and no error shows,
//! unless its peer has NAPI (generic receive offload switched on while both are up) or an XDP program.

use std::io;
use std::os::fd::AsFd;

use super::{BpfError, ProgramFd, calls};
use crate::link::Device;

/// IEEE 802's "local experimental EtherType 1": nobody listens to it.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FRAME_OCTETS: usize = 60;
/// The driver whose devices send what an `XDP_TX` gives them only if their peers have an XDP program, too.
const VETH: &str = "veth";

/// Whether the frames of a program must be redirected to the device instead of `XDP_TX`, and it must be tried
/// whether they leave.
///
/// # Errors
/// The device does not tell its driver.
pub fn is_needed(device: &Device) -> io::Result<bool> {
    Ok(device.driver()? == VETH)
}

/// Has the program send one frame, which nobody takes, by the device that it was loaded for.
///
/// # Errors
/// It did not leave ([`BpfError::Unheard`]), or it could not be tried.
pub fn check(program: &ProgramFd, device: &Device, mac: [u8; 6]) -> Result<(), BpfError> {
    let mut frame = [0; FRAME_OCTETS];
    frame[..6].copy_from_slice(&mac);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    let before = sent(device)?;
    let io = |error| BpfError::Io { operation: "trying whether frames of programs leave", error };
    calls::run_live(program.as_fd(), &frame, 1, 1).map_err(io)?;
    if sent(device)? > before { Ok(()) } else { Err(BpfError::Unheard { device: device.name.clone() }) }
}

fn sent(device: &Device) -> Result<u64, BpfError> {
    let ask = |error| BpfError::Io { operation: "reading the device's counters", error };
    Ok(device.statistics().map_err(ask)?.get("link.tx_packets").copied().unwrap_or(0))
}
