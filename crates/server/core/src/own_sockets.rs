//! The sockets that the process asks from: a query from one of them is a loop.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

const PORTS: usize = 1 << 16;

/// The sockets that all threads ask from, while they come and go. Each port has one word, so that a look
/// costs one load. Two of our addresses that ask from one port at a time share the word: the loop of one of
/// them is not seen then, which happens to a few of 64,511 sockets.
#[derive(Default)]
pub struct OwnSockets {
    /// For each port a mark of the address; 0 is none. Without words there are no sockets.
    marks: Box<[AtomicU32]>,
}

impl OwnSockets {
    /// With room for sockets; the default has none.
    pub fn new() -> Self {
        Self { marks: (0..PORTS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// This address is a socket's from now on.
    pub fn add(&self, socket: SocketAddr) {
        if let Some(place) = self.marks.get(usize::from(socket.port())) {
            place.store(mark(socket.ip()), Ordering::Relaxed);
        }
    }

    /// It is a socket's no longer.
    pub fn remove(&self, socket: SocketAddr) {
        if let Some(place) = self.marks.get(usize::from(socket.port())) {
            let _ = place.compare_exchange(mark(socket.ip()), 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether a socket of ours has this address.
    pub fn contains(&self, address: SocketAddr) -> bool {
        let place = self.marks.get(usize::from(address.port()));
        place.is_some_and(|place| place.load(Ordering::Relaxed) == mark(address.ip()))
    }
}

impl fmt::Debug for OwnSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSockets").finish_non_exhaustive()
    }
}

impl FromIterator<SocketAddr> for OwnSockets {
    fn from_iter<I: IntoIterator<Item = SocketAddr>>(sockets: I) -> Self {
        let own = Self::new();
        sockets.into_iter().for_each(|socket| own.add(socket));
        own
    }
}

/// 32 bits of an address, never 0.
fn mark(address: IpAddr) -> u32 {
    let bits = match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (0..4).fold(0u32, |mark, word| mark.wrapping_mul(31) ^ (bits >> (32 * word)) as u32)
        }
    };
    bits.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_known_while_it_is_there() {
        let [ours, other_port, other_address] =
            ["[2001:db8::1]:5000", "[2001:db8::1]:5001", "192.0.2.1:5000"].map(|text| text.parse().unwrap());
        let own: OwnSockets = [ours].into_iter().collect();
        assert!(own.contains(ours) && !own.contains(other_port) && !own.contains(other_address));
        own.remove(other_address);
        assert!(own.contains(ours), "not that one");
        own.remove(ours);
        assert!(!own.contains(ours));
        let none = OwnSockets::default();
        none.add(ours);
        assert!(!none.contains(ours));
    }
}
