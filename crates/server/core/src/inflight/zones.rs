//! The zones of names, which lookups in flight are counted by.
//!
//! A forwarder does not know where zones are cut: the servers of a zone that is flooded may say nothing at
//! all. The last labels of a name stand for its zone. Names with the same last three labels may take half of
//! the limit, names with the same last two all of it: `example.net` has the whole limit, and a flood of names
//! below `example.co.uk` leaves half of it to the rest of `co.uk`. Below `arpa` it is five labels and four.

use dns64::wire::Name;

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

impl Zone {
    /// The crowds that a lookup for this zone belongs to, each with the part of the limit that is its own: 1
    /// for all of it, 2 for half. A name that has no more labels than stand for its zone is in one alone.
    pub fn crowds(self) -> impl Iterator<Item = (u64, usize)> {
        let lower = (self.lower != self.upper).then_some((self.lower, 2));
        std::iter::once((self.upper, 1)).chain(lower)
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
    fn reverse_names_and_names_of_one_label_have_zones_of_their_own() {
        let share_a_limit = |one, other| zone(one).upper == zone(other).upper;
        assert!(!share_a_limit("1.1.0.10.in-addr.arpa", "1.1.1.11.in-addr.arpa"));
        assert!(share_a_limit("1.1.0.10.in-addr.arpa", "2.2.0.10.in-addr.arpa"));
        assert!(share_a_limit("x1", "x2") && !share_a_limit("x1", "a.x1"));
        assert_eq!(zone("."), zone("."));
    }
}
