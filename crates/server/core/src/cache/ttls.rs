//! The TTLs of a stored reply: their places are found once, when it is stored, and each copy is aged by them.

use dns64::steps;
use dns64::wire::{Header, Malformed, Message, Section, rcode, rtype};

/// What must be known of a reply to store it.
pub(super) struct TtlLayout {
    /// Its length without what stands after the last record.
    pub(super) octets: u16,
    /// How many records have a TTL: all but OPT.
    pub(super) ttls: u16,
    /// TTLs above this are cut to it, in seconds.
    pub(super) cap_s: u32,
}

impl TtlLayout {
    /// Surveys a reply that is given a life of `life_s` seconds. A life that is shorter than every TTL of the
    /// answer section was cut to a limit, and so are all TTLs then.
    pub(super) fn of(reply: &Message<'_>, life_s: u32) -> Result<Self, Malformed> {
        let (mut ttls, mut least_s, mut end) = (0usize, u32::MAX, reply.question_end());
        for record in reply.records() {
            let record = record?;
            end = record.rdata_position() + record.rdata.len();
            if record.rtype == rtype::OPT {
                continue;
            }
            ttls += 1;
            if record.section == Section::Answer {
                least_s = least_s.min(sane_ttl_s(record.ttl));
            }
        }
        let small = |count| u16::try_from(count).map_err(|_| Malformed("over 65535 octets"));
        let cap_s = if life_s < least_s { life_s } else { u32::MAX };
        Ok(Self { octets: small(end)?, ttls: small(ttls)?, cap_s })
    }

    /// Copies a surveyed reply into `copy` and lists the places of its TTLs in `places`, two octets for each.
    pub(super) fn store(&self, reply: &Message<'_>, places: &mut [u8], copy: &mut [u8]) {
        steps::add_octets(copy.len());
        copy.copy_from_slice(&reply.octets()[..usize::from(self.octets)]);
        let aged = reply.records().flatten().filter(|record| record.rtype != rtype::OPT);
        for (place, record) in places.chunks_exact_mut(2).zip(aged) {
            let at = record.ttl_position();
            place.copy_from_slice(&(at as u16).to_le_bytes());
            let ttl_s = sane_ttl_s(record.ttl).min(self.cap_s);
            copy[at..at + 4].copy_from_slice(&ttl_s.to_be_bytes());
        }
    }
}

/// Takes `age_s` seconds off every TTL; none goes below 0.
pub(super) fn age(reply: &mut [u8], places: &[u8], age_s: u32) {
    if age_s == 0 {
        return;
    }
    steps::add(places.len() / 2);
    for place in places.as_chunks::<2>().0 {
        let at = usize::from(u16::from_le_bytes(*place));
        if let Some(ttl) = reply.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *ttl = u32::from_be_bytes(*ttl).saturating_sub(age_s).to_be_bytes();
        }
    }
}

/// A TTL with the top bit set counts as zero (RFC 2181 8).
pub(super) fn sane_ttl_s(ttl_s: u32) -> u32 {
    if ttl_s > i32::MAX as u32 { 0 } else { ttl_s }
}

/// Whether a reply denies its question's name as a whole: NXDOMAIN, and no chain that ends at another name
/// (RFC 6604 3).
pub(super) fn denies_its_name(reply: &[u8]) -> bool {
    Header::parse(reply).is_ok_and(|header| header.rcode() == rcode::NXDOMAIN && header.counts[1] == 0)
}
