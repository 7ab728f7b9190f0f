//! Whether frames that a program redirects to a device leave there: a veth drops them, and no error shows, unless its
//! peer has NAPI (generic receive offload switched on while both are up) or an XDP program.

use std::os::fd::AsFd;

use crate::bpf::{BpfError, Object, objects, sys};
use crate::link::Device;

/// IEEE 802's "local experimental EtherType 1": nobody listens to it.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FRAME_OCTETS: usize = 60;

/// Sends one frame, which nobody takes.
///
/// # Errors
/// It did not leave ([`BpfError::Unheard`]), or it could not be tried.
pub(super) fn check(device: &Device, mac: [u8; 6]) -> Result<(), BpfError> {
    let globals: [(&str, &[u8]); 1] = [("device", &device.index.to_ne_bytes())];
    let program = Object::load("probe", objects::PROBE, &globals, &[])?.program_fd("probe")?;
    let mut frame = [0; FRAME_OCTETS];
    frame[..6].copy_from_slice(&mac);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    let before = sent(device)?;
    let io = |error| BpfError::Io { operation: "trying whether frames of programs leave", error };
    sys::run_live(program.as_fd(), &frame, 1, 1).map_err(io)?;
    if sent(device)? > before { Ok(()) } else { Err(BpfError::Unheard { device: device.name.clone() }) }
}

fn sent(device: &Device) -> Result<u64, BpfError> {
    let ask = |error| BpfError::Io { operation: "reading the device's counters", error };
    Ok(device.statistics().map_err(ask)?.get("link.tx_packets").copied().unwrap_or(0))
}
