//! AF_XDP sockets: rings that a process shares with the kernel, past the network stack.

mod error;
mod ring;
mod socket;

use std::io;

use crate::bpf::{self, MissingCapabilities, Redirect};
use crate::link::Device;
use crate::patience::patiently;
use socket::Failed;

pub use error::XdpError;
pub use socket::{Queue, XdpSocket, wait};

/// The kernel keeps so much of each chunk before the frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM_OCTETS: usize = 256;

/// The size of the chunks that hold frames of up to so many octets: the kernel takes 2048 and 4096.
pub fn chunk_octets(frame_octets: usize) -> u32 {
    if frame_octets + HEADROOM_OCTETS <= 2048 { 2048 } else { 4096 }
}

/// Makes a socket for a queue of a device, and gives it to the program.
///
/// # Errors
/// The queue is in use, the memory cannot be locked, the device went down.
pub fn bind_queue(redirect: &mut Redirect, device: &Device, wanted: &Queue) -> Result<XdpSocket, XdpError> {
    let octets = wanted.memory_octets();
    // The kernel frees the queue of a closed socket a little later.
    let socket = patiently(Failed::is_busy, || XdpSocket::bind(wanted));
    let socket = socket.map_err(|failed| XdpError::of_queue(&device.name, wanted.queue, octets, failed))?;
    redirect.set_socket(wanted.queue, &socket)?;
    Ok(socket)
}

/// Whether AF_XDP can be used here. All missing capabilities are named at once, so that they need not be
/// granted one by one.
///
/// # Errors
/// A kernel without AF_XDP, or missing capabilities.
pub fn check_capabilities() -> Result<(), XdpError> {
    let mut missing = bpf::available().err().map_or(Vec::new(), |MissingCapabilities(missing)| missing);
    match socket::open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => missing.push("CAP_NET_RAW"),
        Err(error) => return Err(XdpError::Kernel(error)),
        Ok(_) => {}
    }
    if missing.is_empty() { Ok(()) } else { Err(XdpError::Capabilities(missing)) }
}
