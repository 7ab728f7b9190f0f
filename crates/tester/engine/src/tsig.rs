//! Queries signed by a shared key, and their answers verified: TSIG (RFC 8945).
//!
//! The caller passes the time. Neither signing nor verifying allocates.

use dns64::wire::{HEADER_LENGTH, Header, Name, Record, Records, Section};
use ring::hmac::{self, Context};

mod sequence;

pub use sequence::Sequence;

/// The algorithms of today (RFC 8945 6): those that must or may be used, without the truncated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `hmac-sha256`
    Sha256,
    /// `hmac-sha384`
    Sha384,
    /// `hmac-sha512`
    Sha512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Its name, as in key files and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "hmac-sha256",
            Self::Sha384 => "hmac-sha384",
            Self::Sha512 => "hmac-sha512",
        }
    }

    fn of_ring(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

/// The longest MAC, in octets.
const MAC_OCTETS_MAX: usize = 64;
/// How far the clocks of both sides may differ, in seconds (RFC 8945 10).
const FUDGE_S: u16 = 300;
const TYPE_TSIG: u16 = 250;
const CLASS_ANY: u16 = 255;
/// TYPE, CLASS, TTL and the length of the RDATA.
const FIXED_OCTETS: usize = 10;
/// Where ARCOUNT stands.
const ARCOUNT_AT: usize = HEADER_LENGTH - 2;

/// The MAC of a message, by which the next one is verified.
#[derive(Clone, Copy, Debug)]
pub struct Mac {
    octets: [u8; MAC_OCTETS_MAX],
    length: u8,
}

impl Default for Mac {
    fn default() -> Self {
        Self { octets: [0; MAC_OCTETS_MAX], length: 0 }
    }
}

impl Mac {
    /// What does not fit is left out: no algorithm has so long a MAC.
    fn of(tag: &[u8]) -> Self {
        let mut mac = Self::default();
        let fitting = &tag[..tag.len().min(MAC_OCTETS_MAX)];
        mac.octets[..fitting.len()].copy_from_slice(fitting);
        mac.length = fitting.len() as u8;
        mac
    }
}

/// Why the signature of an answer does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TsigDefect {
    /// There is none.
    Missing,
    /// It cannot be read, or is not the last record.
    Malformed,
    /// It has another key or algorithm.
    OtherKey,
    /// The server says an error (RFC 8945 3).
    Error(u16),
    /// The MAC is not that of the answer.
    WrongMac,
    /// It was signed more than the fudge away from now.
    Time,
}

impl std::fmt::Display for TsigDefect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("no TSIG"),
            Self::Malformed => f.write_str("malformed TSIG"),
            Self::OtherKey => f.write_str("TSIG of another key"),
            Self::Error(16) => f.write_str("TSIG error BADSIG"),
            Self::Error(17) => f.write_str("TSIG error BADKEY"),
            Self::Error(18) => f.write_str("TSIG error BADTIME"),
            Self::Error(22) => f.write_str("TSIG error BADTRUNC"),
            Self::Error(code) => write!(f, "TSIG error {code}"),
            Self::WrongMac => f.write_str("wrong TSIG"),
            Self::Time => f.write_str("TSIG of another time"),
        }
    }
}

/// A shared key.
pub struct Key {
    /// In lower case, the canonical form that is signed.
    name: Name,
    algorithm: Algorithm,
    algorithm_name: Name,
    hmac: hmac::Key,
    /// What is added to the caller's instants to make them ns since 1970.
    unix_offset_ns: u64,
}

impl std::fmt::Debug for Key {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("algorithm", &self.algorithm).finish()
    }
}

impl std::fmt::Display for Key {
    /// Its algorithm and its name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.algorithm.name(), self.name)
    }
}

impl Key {
    /// A key; `unix_offset_ns` is what is added to an instant on the caller's clock to make it ns since 1970.
    pub fn new(name: &Name, algorithm: Algorithm, secret: &[u8], unix_offset_ns: u64) -> Self {
        Self {
            name: name.to_lowercase(),
            algorithm,
            algorithm_name: Name::from_text(algorithm.name()).unwrap_or(Name::ROOT),
            hmac: hmac::Key::new(algorithm.of_ring(), secret),
            unix_offset_ns,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// How many octets a signature adds to a query.
    pub fn signature_octets(&self) -> usize {
        self.name.as_wire().len() + FIXED_OCTETS + self.rdata_octets()
    }

    fn rdata_octets(&self) -> usize {
        // Time, fudge, length of the MAC; then the original ID, the error and the length of other data.
        self.algorithm_name.as_wire().len() + 10 + self.mac_octets() + 6
    }

    fn mac_octets(&self) -> usize {
        self.algorithm.of_ring().digest_algorithm().output_len()
    }

    /// Signs the message in the first `length` octets of `buffer` at `now_ns`. Returns the length with the
    /// signature, and the MAC; `None` if the buffer is too small.
    pub fn sign(&self, now_ns: u64, buffer: &mut [u8], length: usize) -> Option<(usize, Mac)> {
        let end = length + self.signature_octets();
        let (message, place) = buffer.get_mut(..end)?.split_at_mut_checked(length)?;
        let header = message.first_chunk_mut::<HEADER_LENGTH>()?;
        let id = [header[0], header[1]];
        let records = u16::from_be_bytes([header[ARCOUNT_AT], header[ARCOUNT_AT + 1]]);
        let time = self.time(now_ns);
        let mut context = Context::with_key(&self.hmac);
        context.update(message);
        self.update_name(&mut context);
        context.update(&time);
        context.update(&FUDGE_S.to_be_bytes());
        // Neither an error nor other data.
        context.update(&[0; 4]);
        let tag = context.sign();
        message[ARCOUNT_AT..HEADER_LENGTH].copy_from_slice(&records.checked_add(1)?.to_be_bytes());
        let mut writer = Writer { place, at: 0 };
        writer.put(self.name.as_wire());
        writer.put(&TYPE_TSIG.to_be_bytes());
        writer.put(&CLASS_ANY.to_be_bytes());
        writer.put(&[0; 4]);
        writer.put(&(self.rdata_octets() as u16).to_be_bytes());
        writer.put(self.algorithm_name.as_wire());
        writer.put(&time);
        writer.put(&FUDGE_S.to_be_bytes());
        writer.put(&(self.mac_octets() as u16).to_be_bytes());
        writer.put(tag.as_ref());
        writer.put(&id);
        writer.put(&[0; 4]);
        Some((end, Mac::of(tag.as_ref())))
    }

    /// Verifies the answer to the query that has this MAC. Its question ends at `question_end`.
    ///
    /// # Errors
    /// Why the signature does not hold.
    pub fn verify(
        &self,
        now_ns: u64,
        request: &Mac,
        header: &Header,
        answer: &[u8],
        question_end: usize,
    ) -> Result<(), TsigDefect> {
        let signature = Signature::find(header, answer, question_end)?;
        self.verify_one(now_ns, self.after(request), &signature, (header, answer), Variables::All)
    }

    /// What is signed by now of a message that follows the one with this MAC (RFC 8945 5.3).
    fn after(&self, mac: &Mac) -> Context {
        let mut context = Context::with_key(&self.hmac);
        context.update(&u16::from(mac.length).to_be_bytes());
        context.update(mac.octets.get(..usize::from(mac.length)).unwrap_or_default());
        context
    }

    /// Verifies the signature of a message; `context` has what is signed before the message.
    fn verify_one(
        &self,
        now_ns: u64,
        mut context: Context,
        signature: &Signature<'_>,
        (header, message): (&Header, &[u8]),
        variables: Variables,
    ) -> Result<(), TsigDefect> {
        let Signature { owner, signed, at } = signature;
        let is_ours = |name: &Name, wanted: &Name| name.to_lowercase() == *wanted;
        if signed.mac.is_empty() && signed.error != 0 {
            return Err(TsigDefect::Error(signed.error));
        }
        if !is_ours(owner, &self.name) || !is_ours(&signed.algorithm, &self.algorithm_name) {
            return Err(TsigDefect::OtherKey);
        }
        // As it was before the signature: with the original ID, and a record less.
        context.update(&signed.original_id);
        context.update(message.get(2..ARCOUNT_AT).unwrap_or_default());
        context.update(&header.counts[3].saturating_sub(1).to_be_bytes());
        context.update(message.get(HEADER_LENGTH..*at).unwrap_or_default());
        self.update_variables(&mut context, signed, variables);
        // The time that this comparison takes tells nothing to anybody: only counts come of it.
        if context.sign().as_ref() != signed.mac {
            return Err(TsigDefect::WrongMac);
        }
        if signed.error != 0 {
            return Err(TsigDefect::Error(signed.error));
        }
        let apart_s = seconds(self.time(now_ns)).abs_diff(seconds(signed.time));
        if apart_s > signed.fudge_s.into() { Err(TsigDefect::Time) } else { Ok(()) }
    }

    /// Seconds since 1970, in 48 bits.
    fn time(&self, now_ns: u64) -> [u8; 6] {
        let unix_s = now_ns.wrapping_add(self.unix_offset_ns) / crate::pacer::SECOND_NS;
        let [_, _, time @ ..] = unix_s.to_be_bytes();
        time
    }

    /// What is signed of the record itself (RFC 8945 4.3.3).
    fn update_variables(&self, context: &mut Context, signed: &Signed<'_>, variables: Variables) {
        if variables == Variables::All {
            self.update_name(context);
        }
        context.update(&signed.time);
        context.update(&signed.fudge_s.to_be_bytes());
        if variables == Variables::All {
            context.update(&signed.error.to_be_bytes());
            context.update(&(signed.other.len() as u16).to_be_bytes());
            context.update(signed.other);
        }
    }

    fn update_name(&self, context: &mut Context) {
        context.update(self.name.as_wire());
        context.update(&CLASS_ANY.to_be_bytes());
        context.update(&[0; 4]);
        context.update(self.algorithm_name.as_wire());
    }
}

/// What is signed of a signature itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variables {
    /// All but the MAC.
    All,
    /// The time and the fudge, in the second and every later signature of a sequence.
    Timers,
}

fn seconds([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

struct Writer<'a> {
    place: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    /// The place has room for all that is put into it.
    fn put(&mut self, octets: &[u8]) {
        self.place[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
    }
}

/// The TSIG record of a message.
struct Signature<'a> {
    owner: Name,
    signed: Signed<'a>,
    /// Where it begins.
    at: usize,
}

impl<'a> Signature<'a> {
    /// That of a message whose records begin at `records_at`.
    fn find(header: &Header, message: &'a [u8], records_at: usize) -> Result<Self, TsigDefect> {
        let last = Records::new(message, header, records_at).last().ok_or(TsigDefect::Missing)?;
        let record = last.map_err(|_| TsigDefect::Malformed)?;
        if record.rtype != TYPE_TSIG || record.section != Section::Additional {
            return Err(TsigDefect::Missing);
        }
        let signed = Signed::read(&record).filter(|_| record.class == CLASS_ANY && record.ttl == 0);
        let signed = signed.ok_or(TsigDefect::Malformed)?;
        let owner = record.owner().map_err(|_| TsigDefect::Malformed)?;
        Ok(Self { owner, signed, at: record.position() })
    }
}

/// The RDATA of a TSIG record (RFC 8945 4.2).
struct Signed<'a> {
    algorithm: Name,
    time: [u8; 6],
    fudge_s: u16,
    mac: &'a [u8],
    original_id: [u8; 2],
    error: u16,
    other: &'a [u8],
}

impl<'a> Signed<'a> {
    fn read(record: &Record<'a>) -> Option<Self> {
        let (algorithm, at) = record.name_in_rdata(0).ok()?;
        let (time, rest) = record.rdata.get(at..)?.split_first_chunk::<6>()?;
        let (fudge, rest) = rest.split_first_chunk::<2>()?;
        let (mac_length, rest) = rest.split_first_chunk::<2>()?;
        let (mac, rest) = rest.split_at_checked(u16::from_be_bytes(*mac_length).into())?;
        let (original_id, rest) = rest.split_first_chunk::<2>()?;
        let (error, rest) = rest.split_first_chunk::<2>()?;
        let (other_length, other) = rest.split_first_chunk::<2>()?;
        (other.len() == usize::from(u16::from_be_bytes(*other_length))).then_some(Self {
            algorithm,
            time: *time,
            fudge_s: u16::from_be_bytes(*fudge),
            mac,
            original_id: *original_id,
            error: u16::from_be_bytes(*error),
            other,
        })
    }
}

#[cfg(test)]
mod tests;
