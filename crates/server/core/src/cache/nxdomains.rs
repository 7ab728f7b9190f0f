//! Names that do not exist: what denies one denies all below it, and all types (RFC 8020, RFC 2308 5).
//!
//! Beside the reply that denies a name stands a small entry under the name alone. The small entry holds the
//! type of the question that the reply answers. Name and type are the key of the reply.

use std::sync::atomic::Ordering;

use dns64::wire::{Header as MessageHeader, Message, rcode};

use super::entry::{Header, Kind};
use super::{Cache, Found, Key, ttls};

/// The type in the keys of names: no question has it.
const NO_TYPE: u16 = 0;

/// Names of more labels deny nothing below them: a question has up to 127 names above it, and each that is
/// looked for costs a hash and a lock.
const LABELS_MAX: usize = 16;

impl Cache {
    /// Finds a fresh reply that says that the name of a question, or one above it, does not exist (RFC 8020
    /// 2), and copies it into `out` as [`Self::get_within`] does. It answers another question: only its RCODE
    /// and its authority section are of use. Costs nothing while the cache holds no such reply, and one
    /// look-up for each number of labels that a denied name ever had.
    pub fn nxdomain_above(
        &self,
        key: &Key,
        now_ns: u64,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Found> {
        if self.nxdomains.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let depths = self.nxdomain_depths.load(Ordering::Relaxed);
        let wanted = |labels| labels <= LABELS_MAX && depths >> labels & 1 != 0;
        key.upwards(NO_TYPE, wanted).find_map(|name| {
            let reply = name.with_qtype(self.denied_type(&name)?);
            let (shard, hash) = self.locate(&reply)?;
            shard.lock().denial(hash, reply.as_octets(), now_ns, octets_max, out)
        })
    }

    /// The type of the question whose reply denies a name.
    fn denied_type(&self, name: &Key) -> Option<u16> {
        let (shard, hash) = self.locate(name)?;
        let (_, qtype) = shard.lock().word(hash, Kind::NxDomain, name.as_octets())?;
        Some(qtype)
    }

    /// Learns from a reply whether the name of its question exists. A denial counts if it is secure (AD): who
    /// forges the denial of one type has any number of tries, and would deny all types and all names below.
    pub(super) fn learn_existence(&self, key: &Key, reply: &Message<'_>, ttl_s: u32, now_ns: u64) {
        let denied = reply.header.has(MessageHeader::AD) && ttls::denies_its_name(reply.octets());
        let exists = reply.header.rcode() == rcode::NOERROR && self.nxdomains.load(Ordering::Relaxed) > 0;
        if !denied && !exists {
            return;
        }
        let labels = key.labels();
        if denied && labels > LABELS_MAX {
            return;
        }
        let name = key.with_qtype(NO_TYPE);
        let Some((shard, hash)) = self.locate(&name) else { return };
        self.change(shard, |shard| {
            if exists {
                return shard.remove(hash, Kind::NxDomain, name.as_octets());
            }
            self.nxdomain_depths.fetch_or(1 << labels, Ordering::Relaxed);
            let header = Header::of_word(Kind::NxDomain, hash, name.as_octets());
            shard.write_word(
                &Header { born_ns: now_ns, life_s: ttl_s, ..header },
                name.as_octets(),
                key.qtype(),
            );
        });
    }
}
