//! How many queries of each network of clients wait.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::buckets::network;

/// A count for each network that has queries waiting: /24 of IPv4, /56 of IPv6.
pub struct Shares(HashMap<u64, u32>);

impl Shares {
    /// For so many queries at most, without an allocation later.
    pub fn new(queries: usize) -> Self {
        Self(HashMap::with_capacity(queries))
    }

    /// How many queries of the client's network wait.
    pub fn of(&self, client: IpAddr) -> u32 {
        self.0.get(&network(client)).copied().unwrap_or(0)
    }

    /// One more waits.
    pub fn add(&mut self, client: IpAddr) {
        *self.0.entry(network(client)).or_default() += 1;
    }

    /// One waits no longer.
    pub fn remove(&mut self, client: IpAddr) {
        let network = network(client);
        match self.0.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.0.remove(&network)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_counted_and_forgotten() {
        let mut shares = Shares::new(4);
        let [a, same, other] =
            ["192.0.2.1", "::ffff:192.0.2.9", "192.0.3.1"].map(|text| text.parse().unwrap());
        shares.add(a);
        shares.add(same);
        assert_eq!((shares.of(a), shares.of(same), shares.of(other)), (2, 2, 0));
        shares.remove(a);
        shares.remove(other);
        assert_eq!((shares.of(a), shares.of(other)), (1, 0));
        shares.remove(a);
        assert!(shares.0.is_empty());
    }
}
