//! The next hop towards a server, as far as the kernel knows it: looked up without waiting and without
//! sending anything.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::path::{Route, neighbour};
use super::{Device, PathError};

/// Where frames to a server go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The number of the device.
    pub device: u32,
    /// The Ethernet address of the server, or of the router before it.
    pub mac: [u8; 6],
    /// The kernel needs no confirmation that it is there. If not, it seeks one when it sends there itself.
    pub certain: bool,
}

/// The next hop of what is sent from `source` to a server. `None` where the kernel does not know it yet, and
/// where the way is not over Ethernet: its own sending finds out.
///
/// # Errors
/// The kernel cannot be asked.
pub fn next_hop(server: SocketAddr, source: IpAddr) -> io::Result<Option<Hop>> {
    let route = match Route::look_up_from(server, source) {
        Ok(route) => route,
        Err(PathError::Lookup(_, error)) => return Err(error),
        Err(_) => return Ok(None),
    };
    let device = Device::by_index(route.device)?;
    match device.hardware_address() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    }
    let known = neighbour(&device, route.next_hop)?;
    Ok(known.map(|known| Hop { device: device.index, mac: known.address, certain: known.certain }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_none_towards_this_machine() {
        for (server, source) in [("127.0.0.1:53", "127.0.0.1"), ("[::1]:53", "::1")] {
            let hop = next_hop(server.parse().unwrap(), source.parse().unwrap()).unwrap();
            assert_eq!(hop, None, "{server}");
        }
    }
}
