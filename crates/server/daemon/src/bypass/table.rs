//! What the program takes from the stack: `struct table` of `bpf/bypass.bpf.c`, in memory that it and the
//! process share.
//!
//! Changes cost no system call and no privilege, so that a server can go on changing them after it has given
//! up both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dns64::Range;
use sys::bpf::{BpfError, Map, Shared, address_octets};

/// As in `bpf/bypass.bpf.c`.
const LISTENERS: usize = 64;
const SERVERS: usize = 1024;
const PORTS: usize = 1 << 16;
const USED: u64 = 1 << 16;
const IPV6: u64 = 1 << 17;
const WORKER_SHIFT: u32 = 32;
const SERVER_SHIFT: u32 = 48;

/// An address in two words and a port in one.
const END_WORDS: usize = 3;
const ADDRESS_WORDS: usize = 2;
/// Our address, then the server's with its port.
const SERVER_WORDS: usize = ADDRESS_WORDS + END_WORDS;
const SERVERS_AT: usize = 1 + LISTENERS * END_WORDS;
const PORTS_AT: usize = SERVERS_AT + SERVERS * SERVER_WORDS;
/// `struct repeating`: the epoch, the number of ranges, the ranges (first address, mask, family), what was
/// given.
const EPOCH_AT: usize = PORTS_AT + 2 * PORTS;
const RANGES_AT: usize = EPOCH_AT + 2;
const RANGE_WORDS: usize = 2 * ADDRESS_WORDS + 1;
const GIVEN_AT: usize = RANGES_AT + RANGES_MAX * RANGE_WORDS;
const WORKERS: usize = 256;
const WORDS: usize = GIVEN_AT + WORKERS * CLASSES;

/// Ranges of clients that answers can be repeated to.
pub const RANGES_MAX: usize = 64;
/// Counts of repeated answers that each worker has.
pub const CLASSES: usize = 8;

/// The listeners and the asking sockets whose datagrams the program on one device takes.
pub struct BypassTable {
    shared: Shared,
    /// For each server whose answers are taken, its address and ours, and how many [`PortClaim`]s there are.
    servers: Mutex<Vec<Option<(SocketAddr, IpAddr, usize)>>>,
}

impl BypassTable {
    pub(super) fn new(map: Map) -> Result<Self, BpfError> {
        Ok(Self { shared: Shared::new(map, WORDS)?, servers: Mutex::default() })
    }

    /// Takes the queries to these addresses, and no others, from now on. Unspecified and link-local addresses
    /// are left to the stack, and so are those beyond the first 64. Returns those that are taken.
    pub fn set_listeners(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let taken = addresses.iter().copied().filter(|address| is_plain(address.ip()));
        let taken: Vec<_> = taken.take(LISTENERS).collect();
        for number in 0..LISTENERS {
            self.write_end(1 + number * END_WORDS, taken.get(number).copied());
        }
        self.store(0, taken.len() as u64);
        taken
    }

    /// Takes the answers of a server to sockets at `own`, an address and ports of ours, which belong to a
    /// worker: those that come by one of its queues. `None` where they are left to the stack: link-local
    /// addresses, and servers beyond the 1024th.
    pub fn claim(
        self: &Arc<Self>,
        worker: u16,
        server: SocketAddr,
        own: IpAddr,
        ports: &[u16],
    ) -> Option<PortClaim> {
        if !is_plain(server.ip()) || !is_plain(own) || own.is_ipv4() != server.is_ipv4() {
            return None;
        }
        let number = self.server_number(server, own)?;
        let entry = USED | u64::from(worker) << WORKER_SHIFT | (number as u64) << SERVER_SHIFT;
        for &port in ports {
            self.store(port_at(own, port), entry);
        }
        Some(PortClaim { table: self.clone(), number, own, entry, ports: ports.to_vec() })
    }

    /// Repeats answers of this epoch, which is not 0, and no others, to clients of these ranges from now on.
    /// False if there are more ranges than [`RANGES_MAX`]; nothing is repeated then.
    pub fn repeat_to(&self, clients: &[Range], epoch: u64) -> bool {
        self.stop_repeating();
        if clients.len() > RANGES_MAX {
            return false;
        }
        for (number, range) in clients.iter().enumerate() {
            self.write_range(RANGES_AT + number * RANGE_WORDS, range);
        }
        self.store(EPOCH_AT + 1, clients.len() as u64);
        self.store(EPOCH_AT, epoch);
        true
    }

    /// Repeats nothing of what was to be repeated so far, by the next epoch.
    pub fn forget(&self) {
        let epoch = self.epoch();
        if epoch != 0 {
            self.store(EPOCH_AT, epoch + 1);
        }
    }

    /// Repeats no answers any more.
    pub fn stop_repeating(&self) {
        self.store(EPOCH_AT, 0);
    }

    /// Which answers are repeated; 0 if none are.
    pub fn epoch(&self) -> u64 {
        self.shared.words()[EPOCH_AT].load(Ordering::Acquire)
    }

    /// How many answers the program repeated to queries of a worker's queues, by their classes.
    pub fn given(&self, worker: usize) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.shared.get(GIVEN_AT + worker % WORKERS * CLASSES + class))
    }

    fn write_range(&self, at: usize, range: &Range) {
        let bits = u32::from(range.length_bits());
        let (mask, family) = match range.first() {
            IpAddr::V4(_) => (Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into(), 0),
            IpAddr::V6(_) => {
                (Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into(), IPV6)
            }
        };
        self.write_address(at, range.first());
        self.write_address(at + ADDRESS_WORDS, mask);
        self.store(at + 2 * ADDRESS_WORDS, family);
    }

    fn server_number(&self, server: SocketAddr, own: IpAddr) -> Option<usize> {
        let mut servers = self.servers();
        for (number, known) in servers.iter_mut().enumerate() {
            match known {
                Some((known, from, claims)) if (*known, *from) == (server, own) => {
                    *claims += 1;
                    return Some(number);
                }
                _ => {}
            }
        }
        let number = servers.iter().position(Option::is_none).unwrap_or(servers.len());
        if number == SERVERS {
            return None;
        }
        if number == servers.len() {
            servers.push(None);
        }
        servers[number] = Some((server, own, 1));
        self.write_address(SERVERS_AT + number * SERVER_WORDS, own);
        self.write_end(SERVERS_AT + number * SERVER_WORDS + ADDRESS_WORDS, Some(server));
        Some(number)
    }

    /// Nothing that is locked here can be left half done by a panic.
    fn servers(&self) -> MutexGuard<'_, Vec<Option<(SocketAddr, IpAddr, usize)>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an address and port, or that there is none. The port comes last: with it the entry counts.
    fn write_end(&self, at: usize, end: Option<SocketAddr>) {
        self.store(at + ADDRESS_WORDS, 0);
        if let Some(end) = end {
            self.write_address(at, end.ip());
            let family = if end.is_ipv6() { IPV6 } else { 0 };
            self.store(at + ADDRESS_WORDS, USED | family | u64::from(end.port().to_be()));
        }
    }

    fn write_address(&self, at: usize, address: IpAddr) {
        let octets = address_octets(address);
        let (words, _) = octets.as_chunks::<8>();
        for (word, octets) in words.iter().enumerate() {
            self.store(at + word, u64::from_ne_bytes(*octets));
        }
    }

    fn store(&self, at: usize, value: u64) {
        self.shared.words()[at].store(value, Ordering::Release);
    }
}

/// Neither unspecified, nor link-local: those mean nothing without a device.
fn is_plain(address: IpAddr) -> bool {
    !address.is_unspecified()
        && match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        }
}

fn port_at(own: IpAddr, port: u16) -> usize {
    PORTS_AT + if own.is_ipv6() { PORTS } else { 0 } + usize::from(port)
}

/// The answers of a server to some sockets are taken from the stack until this is dropped.
pub struct PortClaim {
    table: Arc<BypassTable>,
    number: usize,
    own: IpAddr,
    entry: u64,
    ports: Vec<u16>,
}

impl PortClaim {
    /// The answers to a socket at another port are taken instead of those to the one at `before`. An address
    /// that is not the claim's is left to the stack.
    pub fn replace(&mut self, before: u16, address: SocketAddr) {
        self.give_up(before);
        self.ports.retain(|&port| port != before);
        if address.ip() == self.own {
            self.table.store(port_at(self.own, address.port()), self.entry);
            self.ports.push(address.port());
        }
    }

    fn give_up(&self, port: u16) {
        // A socket at another address of ours may have the same port by now.
        let word = &self.table.shared.words()[port_at(self.own, port)];
        let _ = word.compare_exchange(self.entry, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Drop for PortClaim {
    fn drop(&mut self) {
        for &port in &self.ports {
            self.give_up(port);
        }
        let mut servers = self.table.servers();
        if let Some((_, _, claims)) = &mut servers[self.number] {
            *claims -= 1;
            if *claims == 0 {
                servers[self.number] = None;
                self.table.write_end(SERVERS_AT + self.number * SERVER_WORDS + ADDRESS_WORDS, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use sys::bpf::layout::Layout;

    #[test]
    fn the_table_is_laid_out_as_in_the_program() {
        // Members by their words, and words in all.
        let check = |name: &str, members: &[(&str, usize)], words: usize| {
            let layout = Layout::of(objects::BYPASS, name).unwrap();
            let members: Vec<_> = members.iter().map(|&(name, word)| (name, 8 * word)).collect();
            assert_eq!((layout.offsets(), layout.octets), (members, 8 * words), "struct {name}");
        };
        check("end", &[("address", 0), ("port", ADDRESS_WORDS)], END_WORDS);
        check("asked", &[("own", 0), ("server", ADDRESS_WORDS)], SERVER_WORDS);
        let range = [("first", 0), ("mask", ADDRESS_WORDS), ("family", 2 * ADDRESS_WORDS)];
        check("range", &range, RANGE_WORDS);
        let (ranges, given) = (("ranges", RANGES_AT - EPOCH_AT), ("given", GIVEN_AT - EPOCH_AT));
        check("repeating", &[("epoch", 0), ("range_count", 1), ranges, given], WORDS - EPOCH_AT);
        let rest = [("servers", SERVERS_AT), ("ports", PORTS_AT), ("repeating", EPOCH_AT)];
        check("table", &[&[("listener_count", 0), ("listeners", 1)][..], &rest].concat(), WORDS);
    }

    #[test]
    fn addresses_that_mean_nothing_without_a_device_are_the_stacks() {
        for (address, plain) in [
            ("192.0.2.1", true),
            ("2001:db8::1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_plain(address.parse().unwrap()), plain, "{address}");
        }
    }

    #[test]
    fn ports_of_both_families_have_words_of_their_own() {
        let (v4, v6) = ("192.0.2.1".parse().unwrap(), "::1".parse().unwrap());
        assert_eq!(port_at(v4, 0), PORTS_AT);
        assert_eq!(port_at(v4, u16::MAX) + 1, port_at(v6, 0));
        assert_eq!(port_at(v6, u16::MAX) + 1, EPOCH_AT);
    }
}
