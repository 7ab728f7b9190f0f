//! How many lookups are in flight for names of one zone.
//!
//! A forwarder does not know where zones are cut: the servers of a zone that is flooded may say nothing at
//! all. The last labels of a name stand for its zone. Names with the same last three labels may take half of
//! the limit, names with the same last two all of it: `example.net` has the whole limit, and a flood of names
//! below `example.co.uk` leaves half of it to the rest of `co.uk`. Below `arpa` it is five labels and four.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use dns64::wire::Name;

use super::lookups::PrehashedHasher;

/// What stands for the zone of a name: a keyed hash of its last labels, fewer and more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    upper: u64,
    lower: u64,
}

impl Zone {
    /// That of a name in lower case.
    pub fn of(name: &Name, hash: impl Fn(&[u8]) -> u64) -> Self {
        let (wire, count) = (name.as_wire(), name.labels().count());
        let is_reverse = name.labels().last().is_some_and(|label| label == b"arpa");
        let ending = |labels: usize| {
            let skipped = name.labels().take(count.saturating_sub(labels));
            &wire[skipped.map(|label| label.len() + 1).sum()..]
        };
        let upper = match is_reverse {
            // Names of one label are in the root.
            _ if count < 2 => 0,
            false => 2,
            true => 4,
        };
        Self { upper: hash(ending(upper)), lower: hash(ending(upper + 1)) }
    }
}

/// The counts of all zones that have lookups in flight.
pub struct Zones {
    counts: HashMap<u64, u32, BuildHasherDefault<PrehashedHasher>>,
    limit: u32,
}

impl Zones {
    /// For so many lookups at most, without an allocation later, of which `limit` may be for one zone.
    pub fn new(lookups: usize, limit: usize) -> Self {
        Self {
            counts: HashMap::with_capacity_and_hasher(2 * lookups, BuildHasherDefault::default()),
            limit: u32::try_from(limit).unwrap_or(u32::MAX).max(1),
        }
    }

    /// Whether one more may start.
    pub fn has_room(&self, zone: Zone) -> bool {
        let count = |ending| self.counts.get(&ending).copied().unwrap_or(0);
        count(zone.upper) < self.limit && (zone.is_one() || count(zone.lower) < self.limit.div_ceil(2))
    }

    /// One more has started.
    pub fn add(&mut self, zone: Zone) {
        zone.endings().for_each(|ending| *self.counts.entry(ending).or_default() += 1);
    }

    /// One has ended.
    pub fn remove(&mut self, zone: Zone) {
        for ending in zone.endings() {
            match self.counts.get_mut(&ending) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.counts.remove(&ending)),
            }
        }
    }
}

impl Zone {
    /// Whether the name has no more labels than stand for its zone.
    fn is_one(self) -> bool {
        self.upper == self.lower
    }

    fn endings(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.upper).chain((!self.is_one()).then_some(self.lower))
    }

    /// Whether a limit that one of them reaches is the other's, too.
    pub fn overlaps(self, other: Self) -> bool {
        self.upper == other.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(text: &str) -> Zone {
        Zone::of(&Name::from_text(text).unwrap(), |ending| {
            ending.iter().fold(5381u64, |hash, octet| hash.wrapping_mul(33) ^ u64::from(*octet))
        })
    }

    #[test]
    fn a_zone_is_limited_and_leaves_room_for_its_siblings() {
        let mut zones = Zones::new(16, 4);
        for name in ["a.example.co.uk", "b.c.example.co.uk"] {
            assert!(zones.has_room(zone(name)));
            zones.add(zone(name));
        }
        assert!(!zones.has_room(zone("x.example.co.uk")), "half of the limit");
        for name in ["a.example.net", "b.example.net", "example.net", "d.e.f.example.net"] {
            assert!(zones.has_room(zone(name)), "{name}");
            zones.add(zone(name));
        }
        assert!(!zones.has_room(zone("x.example.net")) && !zones.has_room(zone("example.net")));
        assert!(zones.has_room(zone("www.other.co.uk")) && zones.has_room(zone("www.other.net")));
        zones.remove(zone("b.example.net"));
        assert!(zones.has_room(zone("x.example.net")));
        let left = ["a.example.net", "example.net", "d.e.f.example.net"];
        for name in left.into_iter().chain(["a.example.co.uk", "b.c.example.co.uk"]) {
            zones.remove(zone(name));
        }
        assert!(zones.counts.is_empty());
    }

    #[test]
    fn reverse_names_and_names_of_one_label_have_zones_of_their_own() {
        assert!(!zone("1.1.0.10.in-addr.arpa").overlaps(zone("1.1.1.11.in-addr.arpa")));
        assert!(zone("1.1.0.10.in-addr.arpa").overlaps(zone("2.2.0.10.in-addr.arpa")));
        assert!(zone("x1").overlaps(zone("x2")) && !zone("x1").overlaps(zone("a.x1")));
        assert_eq!(zone("."), zone("."));
    }
}
