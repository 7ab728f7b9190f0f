//! What the cache knows of a question.

use dns64::wire::{
    CLASS_IN, Header, Malformed, Message, NAME_LENGTH_MAX, Name, Overflow, Question, Section, Writer,
};
use siphasher::sip::SipHasher13;

use super::{MESSAGE_OCTETS_MAX, Machine};
use crate::cache::Key;
use crate::ids::Random;

/// A question as it is asked upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub question: Question,
    pub recursion_desired: bool,
    pub checking_disabled: bool,
    pub dnssec_ok: bool,
    pub group: usize,
}

impl Wanted {
    /// Whether the reply may be shared and kept: it is a resolver's answer to a question for records. Without RD it may be a
    /// referral, which depends on what the resolver happens to know; types from 128 on are questions for something else than
    /// records (RFC 6895 3.1).
    pub fn is_shared(&self) -> bool {
        self.recursion_desired
            && self.question.qclass == CLASS_IN
            && !(128..256).contains(&self.question.qtype)
    }

    pub fn key(&self) -> Key {
        Key::new(&self.question, self.dnssec_ok, self.checking_disabled, self.group)
    }
}

/// What equal lookups have in common, as a keyed hash: nobody outside can make two names collide.
pub(super) struct Hash(SipHasher13);

impl Hash {
    pub fn new(random: &mut Random) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&random.seed()[..16]);
        Self(SipHasher13::new_with_key(&key))
    }

    pub fn of(&self, wanted: &Wanted) -> u64 {
        self.0.hash(wanted.key().as_octets())
    }
}

/// What is remembered of a question. A reply is in the buffer of recalled replies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recalled {
    /// A reply in its time of life; `ageing` means that it will end soon and should be asked for again.
    Fresh { ageing: bool },
    /// A failure, with its reason as an extended error.
    Failure(u16),
}

impl Machine {
    /// Looks for a fresh reply, or a failure that is still in force, and counts.
    pub(super) fn recall(&mut self, now_ns: u64, wanted: &Wanted) -> Option<Recalled> {
        let recalled = self.look_up(now_ns, wanted);
        let counter = match recalled {
            Some(Recalled::Fresh { .. }) => &mut self.stats.cache_hits,
            Some(Recalled::Failure(_)) => &mut self.stats.failure_hits,
            None if !wanted.is_shared() => return None,
            None => &mut self.stats.cache_misses,
        };
        *counter += 1;
        recalled
    }

    /// Whether nothing need be asked upstream for this question now.
    pub(super) fn is_known(&mut self, now_ns: u64, wanted: &Wanted) -> bool {
        // The news that an entry ends soon is told once: here it leads to a question, too.
        self.look_up(now_ns, wanted).is_some_and(|known| !matches!(known, Recalled::Fresh { ageing: true }))
    }

    fn look_up(&mut self, now_ns: u64, wanted: &Wanted) -> Option<Recalled> {
        if !wanted.is_shared() {
            return None;
        }
        let (key, cache, buffer) = (wanted.key(), &self.shared.cache, &mut self.buffers.recalled);
        if let Some(found) = cache.get(&key, now_ns, buffer)
            && found.ttl_left_s > 0
        {
            self.recalled_until_ns = self.recalled_until_ns.min(found.ticks_ns);
            return Some(Recalled::Fresh { ageing: found.ageing && self.settings.caching.prefetch });
        }
        if self.settings.caching.nxdomain_cut
            && let Some(above) = cache.nxdomain_above(&key, now_ns, buffer)
        {
            self.recalled_until_ns = self.recalled_until_ns.min(above.ticks_ns);
            let of_name = &mut self.buffers.respelled;
            denial_of(&wanted.question, buffer, of_name).ok()?;
            std::mem::swap(buffer, of_name);
            return Some(Recalled::Fresh { ageing: false });
        }
        cache.failure(&key, now_ns).map(|failure| Recalled::Failure(failure.cause))
    }

    /// Looks for a reply that may be given in spite of its age (RFC 8767 5); its TTLs are set so.
    pub(super) fn recall_stale(&mut self, now_ns: u64, wanted: &Wanted) -> bool {
        let Some(stale) = self.settings.caching.stale.filter(|_| wanted.is_shared()) else { return false };
        let buffer = &mut self.buffers.recalled;
        let Some(found) = self.shared.cache.get(&wanted.key(), now_ns, buffer) else { return false };
        if found.stale_s > stale.age_max_s {
            return false;
        }
        if found.ttl_left_s == 0 {
            raise_ttls(buffer, stale.ttl_s);
        }
        true
    }
}

/// Writes the reply that a name above does not exist as the reply to a question below it (RFC 8020 2). Of its records only
/// those of the authority section belong there; nobody has validated them for this name.
fn denial_of(question: &Question, above: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let above = Message::parse(above)?;
    let no_room = |_: Overflow| Malformed("longer than its buffer when written again");
    let flags = above.header.flags & !Header::AD;
    // Names may be compressed worse than before; a reply for which this is not enough is asked for.
    out.resize((2 * above.octets().len() + NAME_LENGTH_MAX).min(MESSAGE_OCTETS_MAX), 0);
    let mut writer = Writer::new(out, above.header.id, flags, question).map_err(no_room)?;
    for record in above.records() {
        let record = record?;
        if record.section == Section::Authority {
            writer.copy(&record, record.ttl).map_err(no_room)?;
        }
    }
    let length = writer.finish();
    out.truncate(length);
    Ok(())
}

/// Sets every TTL that is lower to `ttl_s`; the fields of OPT are no TTL.
fn raise_ttls(message: &mut [u8], ttl_s: u32) {
    let mut places = [0; 64];
    loop {
        // Found first, written then: the message cannot be read and changed at once.
        let found = {
            let Ok(parsed) = Message::parse(message) else { return };
            let start = message.as_ptr() as usize;
            let records = parsed.records().map_while(Result::ok);
            let low = records.filter(|record| record.rtype != dns64::wire::rtype::OPT && record.ttl < ttl_s);
            let mut found = 0;
            for (place, record) in places.iter_mut().zip(low) {
                // Before RDATA stand the TTL and two octets of its length.
                *place = record.rdata.as_ptr() as usize - start - 6;
                found += 1;
            }
            found
        };
        for &place in &places[..found] {
            message[place..place + 4].copy_from_slice(&ttl_s.to_be_bytes());
        }
        if found < places.len() {
            return;
        }
    }
}

/// A message with the question spelled as the client spelled it: names in the message point there. Uses `buffer` where
/// the spelling differs; `None` where the names do.
pub(super) fn respelled<'b>(
    message: &Message<'b>,
    name: &Name,
    buffer: &'b mut Vec<u8>,
) -> Option<Message<'b>> {
    const NAME_AT: usize = dns64::wire::HEADER_LENGTH;
    let spelled = message.qname_octets();
    if spelled == name.as_wire() {
        return Some(*message);
    }
    if spelled.len() != name.as_wire().len() {
        return None;
    }
    buffer.clear();
    buffer.extend_from_slice(message.octets());
    buffer[NAME_AT..NAME_AT + spelled.len()].copy_from_slice(name.as_wire());
    Message::parse(buffer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::rtype;

    #[test]
    fn low_ttls_are_raised_and_others_are_not() {
        let question =
            Question { name: Name::from_text("a.test").unwrap(), qtype: rtype::A, qclass: CLASS_IN };
        let mut buffer = [0; 4096];
        let mut writer = Writer::new(&mut buffer, 1, Header::QR, &question).unwrap();
        for number in 0..100u8 {
            let ttl_s = if number % 2 == 0 { 0 } else { 300 };
            writer.record(Section::Answer, &question.name, rtype::A, CLASS_IN, ttl_s, &[number; 4]).unwrap();
        }
        let length = writer.finish();
        raise_ttls(&mut buffer[..length], 30);
        let ttls: Vec<u32> =
            Message::parse(&buffer[..length]).unwrap().answers().map(|record| record.ttl).collect();
        assert_eq!(ttls, [30, 300].repeat(50));
        raise_ttls(&mut [0xff; 40], 30);
    }
}
