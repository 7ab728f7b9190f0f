//! Writing an answer whose owner names all lead into the question, so that its layout depends on nothing else.

use dns64::wire::{CLASS_IN, Edns, HEADER_LENGTH, Header, NAME_LENGTH_MAX, Overflow, Section, rtype};

use super::zone::EDNS_PAYLOAD_OCTETS;

/// The length of an OPT record without options.
pub const OPT_OCTETS: usize = 11;

/// The compression pointer to the name of the question.
pub const QNAME_POINTER: [u8; 2] = [0xc0, HEADER_LENGTH as u8];

/// The compression pointer to a place within the name of the question (RFC 1035 4.1.4).
pub fn pointer(at: usize) -> [u8; 2] {
    debug_assert!(at <= HEADER_LENGTH + NAME_LENGTH_MAX);
    (0xc000 | at as u16).to_be_bytes()
}

/// An answer under construction: header, question as it was asked, records, OPT last.
pub struct Response<'o> {
    out: &'o mut [u8],
    length: usize,
    counts: [u16; 4],
}

impl<'o> Response<'o> {
    /// Starts with a copy of the question; without one the header stands alone.
    ///
    /// # Errors
    /// The buffer is too small.
    pub fn new(out: &'o mut [u8], question: &[u8]) -> Result<Self, Overflow> {
        let mut response = Self { out, length: 0, counts: [u16::from(!question.is_empty()), 0, 0, 0] };
        response.put(&[0; HEADER_LENGTH])?;
        response.put(question)?;
        Ok(response)
    }

    /// The number of octets so far.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds a record of class IN.
    ///
    /// # Errors
    /// It does not fit; the response must then be given up.
    pub fn record(
        &mut self,
        section: Section,
        owner: [u8; 2],
        rtype: u16,
        ttl_s: u32,
        rdata: &[u8],
    ) -> Result<(), Overflow> {
        self.put(&owner)?;
        self.put(&rtype.to_be_bytes())?;
        self.put(&CLASS_IN.to_be_bytes())?;
        self.put(&ttl_s.to_be_bytes())?;
        self.put(&u16::try_from(rdata.len()).map_err(|_| Overflow)?.to_be_bytes())?;
        self.counts[section as usize] += 1;
        self.put(rdata)
    }

    /// Adds the OPT record that answers the client's, DO copied (RFC 6891 6.1.1, RFC 3225 3).
    ///
    /// # Errors
    /// It does not fit.
    pub fn edns(&mut self, asked: &Edns, rcode: u16) -> Result<(), Overflow> {
        let dnssec_ok = if asked.dnssec_ok { 0x80 } else { 0 };
        let mut record = [0; OPT_OCTETS];
        record[1..3].copy_from_slice(&rtype::OPT.to_be_bytes());
        record[3..5].copy_from_slice(&EDNS_PAYLOAD_OCTETS.to_be_bytes());
        record[5] = (rcode >> 4) as u8;
        record[7] = dnssec_ok;
        self.counts[Section::Additional as usize] += 1;
        self.put(&record)
    }

    /// Completes the header and returns the length.
    pub fn finish(self, id: u16, flags: u16) -> usize {
        let words = [id, flags].into_iter().chain(self.counts);
        for (place, word) in self.out.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        self.length
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Overflow> {
        let end = self.length + octets.len();
        self.out.get_mut(self.length..end).ok_or(Overflow)?.copy_from_slice(octets);
        self.length = end;
        Ok(())
    }
}

/// The flags of the answer to a query: QR, the opcode and RD copied (RFC 1035 4.1.1), the lower bits of the RCODE.
///
/// RA, AD and CD stay clear: no recursion, no validation (RFC 4035 3.1.6).
pub fn answer_flags(query: &Header, set: u16, rcode: u16) -> u16 {
    Header::QR | (query.flags & (Header::OPCODE | Header::RD)) | set | (rcode & Header::RCODE)
}
