//! The n-th query: its octets, and the answer expected for it.

use std::net::Ipv6Addr;

use dns64::names::{self, LABEL_LENGTH};
use dns64::wire::{CLASS_IN, Edns, HEADER_LENGTH, Header, Name, Question, Writer, rtype};
use dns64::{NameSpace, Prefix};

/// What to ask and what to expect.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// The names.
    pub names: NameSpace,
    /// The index of the first name; the following queries take the following names.
    pub first_name: u64,
    /// The zone that the names are in.
    pub suffix: Name,
    /// The prefix under which synthesized answers are expected.
    pub prefix: Prefix,
    /// Names with a AAAA record of their own: their share of all in percent, and the prefix of those records.
    pub native: Option<(u8, Prefix)>,
    /// Payload size of an OPT record to add, in octets; `None` sends none, as dns64perf++ does.
    pub edns_octets: Option<u16>,
}

/// Queries made from a template: only the ID and the first label differ.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: WorkloadSpec,
    template: Vec<u8>,
    question_end: usize,
}

/// The suffix leaves no room for the names: with their label it is over 255 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuffixTooLong;

impl std::fmt::Display for SuffixTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the suffix is too long: with a label of {LABEL_LENGTH} characters the names exceed 255 octets"
        )
    }
}

impl std::error::Error for SuffixTooLong {}

/// Where the first label's text stands in a query.
const LABEL_AT: usize = HEADER_LENGTH + 1;

impl Workload {
    /// Makes the template.
    ///
    /// # Errors
    /// The suffix is too long.
    pub fn new(spec: WorkloadSpec) -> Result<Self, SuffixTooLong> {
        let mut wire = vec![LABEL_LENGTH as u8];
        wire.extend([b'0'; LABEL_LENGTH]);
        wire.extend(spec.suffix.as_wire());
        let (name, _) = Name::parse(&wire, 0).map_err(|_| SuffixTooLong)?;
        let question = Question { name, qtype: rtype::AAAA, qclass: CLASS_IN };
        let mut buffer = [0; 512];
        let written = Writer::new(&mut buffer, 0, Header::RD, &question).and_then(|mut writer| {
            if let Some(payload_octets) = spec.edns_octets {
                writer
                    .edns(&Edns { payload_octets, extended_rcode: 0, version: 0, dnssec_ok: false }, &[])?;
            }
            Ok(writer.finish())
        });
        let length = written.map_err(|_| SuffixTooLong)?;
        let question_end = HEADER_LENGTH + wire.len() + 4;
        Ok(Self { spec, template: buffer[..length].to_vec(), question_end })
    }

    /// What it was made from.
    pub fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    /// The length of every query in octets.
    pub fn query_octets(&self) -> usize {
        self.template.len()
    }

    /// Writes query `n` of the trial; returns its length, or 0 if the buffer is too small.
    pub fn write(&self, n: u64, id: u16, buffer: &mut [u8]) -> usize {
        let Some(place) = buffer.get_mut(..self.template.len()) else { return 0 };
        place.copy_from_slice(&self.template);
        place[..2].copy_from_slice(&id.to_be_bytes());
        let address = self.spec.names.address(self.spec.first_name.wrapping_add(n));
        if let Some(label) = place[LABEL_AT..].first_chunk_mut() {
            names::write_label(address, label);
        }
        place.len()
    }

    /// The number within the trial of the query that a reply repeats; `None` if its question is not one of ours.
    pub fn number_of(&self, reply: &[u8]) -> Option<u64> {
        let question = reply.get(HEADER_LENGTH..self.question_end)?;
        let own = &self.template[HEADER_LENGTH..self.question_end];
        let after_label = 1 + LABEL_LENGTH;
        let same = question[0] == own[0] && question[after_label..].eq_ignore_ascii_case(&own[after_label..]);
        if !same || reply[4..6] != [0, 1] {
            return None;
        }
        let address = names::parse_label(&question[1..after_label])?;
        let index = self.spec.names.index(address)?;
        Some(index.wrapping_sub(self.spec.first_name) & (self.spec.names.size() - 1))
    }

    /// Where the records of a reply begin.
    pub fn question_end(&self) -> usize {
        self.question_end
    }

    /// The address that the right answer to query `n` carries.
    pub fn expected(&self, n: u64) -> Ipv6Addr {
        let address = self.spec.names.address(self.spec.first_name.wrapping_add(n));
        match self.spec.native {
            Some((share, prefix)) if names::has_aaaa(address, share) => prefix.embed(address),
            _ => self.spec.prefix.embed(address),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use dns64::wire::Message;

    pub(crate) fn workload(first_name: u64) -> Workload {
        Workload::new(WorkloadSpec {
            names: "10.0.0.0/8".parse().unwrap(),
            first_name,
            suffix: Name::from_text("dns64perf.test").unwrap(),
            prefix: "2001:db8:64::/96".parse().unwrap(),
            native: Some((20, "2001:db8:aaaa::/96".parse().unwrap())),
            edns_octets: Some(1232),
        })
        .unwrap()
    }

    #[test]
    fn a_query_carries_its_number() {
        for first_name in [0, 1000, (1 << 24) - 1] {
            let workload = workload(first_name);
            let mut buffer = [0; 512];
            for n in [0, 1, 65_536, (1 << 24) - 1] {
                let length = workload.write(n, 0xabcd, &mut buffer);
                assert_eq!(workload.number_of(&buffer[..length]), Some(n));
                let message = Message::parse(&buffer[..length]).unwrap();
                assert_eq!(message.header.id, 0xabcd);
                assert_eq!(message.question_end(), workload.question_end());
                assert_eq!(message.edns().unwrap().unwrap().payload_octets, 1232);
            }
        }
    }

    #[test]
    fn foreign_questions_have_no_number() {
        let workload = workload(0);
        let mut buffer = [0; 512];
        let length = workload.write(5, 1, &mut buffer);
        for at in [4, 12, 13, 16, 28, 40] {
            let mut changed = buffer;
            changed[at] ^= 0x41;
            assert_eq!(workload.number_of(&changed[..length]), None, "octet {at}");
        }
        assert_eq!(workload.number_of(&buffer[..20]), None);
        let mut upper = buffer;
        upper[29..38].make_ascii_uppercase();
        assert_eq!(workload.number_of(&upper[..length]), Some(5), "case does not matter");
    }

    #[test]
    fn a_suffix_too_long_is_refused() {
        let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(60));
        let spec = WorkloadSpec { suffix: Name::from_text(&long).unwrap(), ..workload(0).spec };
        assert_eq!(Workload::new(spec).unwrap_err(), SuffixTooLong);
    }
}
