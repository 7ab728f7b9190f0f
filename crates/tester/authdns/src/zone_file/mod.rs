//! The AuthDNS's zone as a master file (RFC 1035 5), so that any server can be the AuthDNS.
//!
//! Every record is an answer of [`Zone::answer`]: whatever the zone's rule says, the file says the same.

mod text;

use std::fmt;
use std::io::{self, Write};

use dns64::NameSpace;
use dns64::names::{LABEL_LENGTH, write_label};
use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Name, Record, Records, Section, rtype};

use crate::{Rules, Transport, Zone};
use text::Line;

/// Text is handed on in pieces of about this size, in octets.
const PIECE_OCTETS: usize = 1 << 16;
/// Names between two looks at the watcher.
const NAMES_AT_ONCE: u64 = 1 << 14;
/// Names that are written for a forecast, spread over the range.
const SAMPLE_NAMES: u64 = 1 << 10;
const ANSWER_OCTETS: usize = 65_535;
/// The types that a name of the rule is asked for.
const HOST_TYPES: [u16; 2] = [rtype::A, rtype::AAAA];
/// The types that the apex and the name server are asked for.
const FIXED_TYPES: [u16; 4] = [rtype::SOA, rtype::NS, rtype::A, rtype::AAAA];

/// What a file will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Names of the rule in it.
    pub names: u64,
    /// Its size in octets, from a sample of the names.
    pub octets: u64,
}

/// What a zone has that no file can hold, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotExportable(&'static str);

impl fmt::Display for NotExportable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no zone file holds this zone: {}", self.0)
    }
}

impl std::error::Error for NotExportable {}

/// A zone on its way to a file.
#[derive(Debug)]
pub struct ZoneFile<'z> {
    zone: &'z Zone,
    suffix: Name,
    names: NameSpace,
}

/// Asks the zone for one name of the rule after the other, without allocating.
struct Asker<'z> {
    zone: &'z Zone,
    query: Vec<u8>,
    answer: Box<[u8]>,
}

impl<'z> ZoneFile<'z> {
    /// The file of a zone: all its names, 2^32 of them where it has no range.
    ///
    /// # Errors
    /// It has more than hosts with addresses: some of that has no end, or stands in other zones.
    pub fn new(zone: &'z Zone) -> Result<Self, NotExportable> {
        let config = zone.config();
        let unfit = [
            (
                config.signing.is_some(),
                "it is signed as it answers; leave out --signed and let the server sign it",
            ),
            (
                config.rules != Rules::default(),
                "it has more than hosts with addresses; leave out --rules, or let 'sextant auth' answer",
            ),
            (
                config.records.is_some(),
                "it has fixed records; leave out --records and add them to the file, or let 'sextant auth' answer",
            ),
        ];
        if let Some((_, what)) = unfit.iter().find(|(has, _)| *has) {
            return Err(NotExportable(what));
        }
        let all: Result<NameSpace, _> = "0.0.0.0/0".parse();
        let names = config.names.or(all.ok()).ok_or(NotExportable("it has no range of names"))?;
        let suffix = Name::from_text(&config.suffix.to_ascii_lowercase());
        Ok(Self { zone, suffix: suffix.map_err(|malformed| NotExportable(malformed.0))?, names })
    }

    /// How large it will be.
    pub fn forecast(&self) -> Forecast {
        let size = self.names.size();
        let mut asker = Asker::new(self.zone, &self.suffix);
        let mut text = Vec::new();
        self.head(&mut text);
        let head_octets = text.len() as u64;
        let sample = size.min(SAMPLE_NAMES);
        text.clear();
        for number in 0..sample {
            // An odd stride visits all residues, so that every length of an address occurs as often as in the
            // file.
            let index = (number * (size / sample) + number * 0x9e37_79b1) % size;
            asker.host(self.names, index, self.zone.config().ttl_s, &mut text);
        }
        let octets = (text.len() as u128 * u128::from(size) / u128::from(sample)) as u64;
        Forecast { names: size, octets: head_octets + octets }
    }

    /// Writes it. `watch` is told now and then how many names are written, and ends it by returning false.
    ///
    /// # Errors
    /// Those of `out`; `Interrupted` when `watch` ended it.
    pub fn write(&self, out: &mut impl Write, mut watch: impl FnMut(u64) -> bool) -> io::Result<()> {
        let mut asker = Asker::new(self.zone, &self.suffix);
        let mut text = Vec::with_capacity(2 * PIECE_OCTETS);
        self.head(&mut text);
        let ttl_s = self.zone.config().ttl_s;
        for index in 0..self.names.size() {
            if index.is_multiple_of(NAMES_AT_ONCE) && !watch(index) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            asker.host(self.names, index, ttl_s, &mut text);
            if text.len() >= PIECE_OCTETS {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)?;
        watch(self.names.size());
        out.flush()
    }

    /// The directives, and the records of the apex and the name server.
    fn head(&self, text: &mut Vec<u8>) {
        let config = self.zone.config();
        let mut line = Line::new(text);
        line.word(b"$ORIGIN ");
        line.name(&self.suffix);
        line.word(b"\n$TTL ");
        line.number(config.ttl_s);
        line.end();
        let mut answer = vec![0; ANSWER_OCTETS];
        for label in [&b""[..], b"ns"] {
            let mut owner = if label.is_empty() { Vec::new() } else { vec![label.len() as u8] };
            owner.extend_from_slice(label);
            owner.extend_from_slice(self.suffix.as_wire());
            for qtype in FIXED_TYPES {
                let query = question(&owner, qtype);
                let octets = self.zone.answer(&query, Transport::Tcp, &mut answer).octets;
                for record in answers(&answer[..octets], query.len()).filter(|record| record.rtype == qtype) {
                    let owner = if label.is_empty() { b"@" } else { label };
                    Line::new(text).record(owner, &record, config.ttl_s);
                }
            }
        }
    }
}

impl<'z> Asker<'z> {
    fn new(zone: &'z Zone, suffix: &Name) -> Self {
        let mut owner = vec![LABEL_LENGTH as u8];
        owner.extend_from_slice(&[b'0'; LABEL_LENGTH]);
        owner.extend_from_slice(suffix.as_wire());
        Self { zone, query: question(&owner, rtype::A), answer: vec![0; ANSWER_OCTETS].into() }
    }

    /// Appends the records of one name.
    fn host(&mut self, names: NameSpace, index: u64, ttl_s: u32, text: &mut Vec<u8>) {
        const LABEL_AT: usize = HEADER_LENGTH + 1;
        let mut label = [0; LABEL_LENGTH];
        write_label(names.address(index), &mut label);
        self.query[LABEL_AT..LABEL_AT + LABEL_LENGTH].copy_from_slice(&label);
        let type_at = self.query.len() - 4;
        for qtype in HOST_TYPES {
            self.query[type_at..type_at + 2].copy_from_slice(&qtype.to_be_bytes());
            let octets = self.zone.answer(&self.query, Transport::Tcp, &mut self.answer).octets;
            for record in answers(&self.answer[..octets], self.query.len()) {
                Line::new(text).record(&label, &record, ttl_s);
            }
        }
    }
}

/// A query for a name in wire format.
fn question(owner: &[u8], qtype: u16) -> Vec<u8> {
    let header = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], owner, &qtype.to_be_bytes(), &CLASS_IN.to_be_bytes()].concat()
}

/// The answer section of what the zone says to a question that ends at `question_end`.
fn answers(octets: &[u8], question_end: usize) -> impl Iterator<Item = Record<'_>> {
    let header = Header::parse(octets).ok().filter(|header| header.rcode() == 0);
    let records = header.map(|header| Records::new(octets, &header, question_end));
    records.into_iter().flatten().map_while(Result::ok).take_while(|record| record.section == Section::Answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordsFile, Signing, SigningKey, ZoneConfig};

    fn written(config: ZoneConfig) -> (Forecast, String) {
        let zone = Zone::new(config).unwrap();
        let file = ZoneFile::new(&zone).unwrap();
        let mut out = Vec::new();
        file.write(&mut out, |_| true).unwrap();
        (file.forecast(), String::from_utf8(out).unwrap())
    }

    fn config(names: &str, aaaa_share_percent: u8) -> ZoneConfig {
        ZoneConfig { names: Some(names.parse().unwrap()), aaaa_share_percent, ..ZoneConfig::default() }
    }

    #[test]
    fn a_small_zone_is_this_text() {
        let (_, text) = written(config("10.0.0.254/31", 100));
        let expected = "$ORIGIN dns64perf.test.\n$TTL 60\n\
            @ SOA ns.dns64perf.test. hostmaster.dns64perf.test. 1 3600 600 86400 60\n\
            @ NS ns.dns64perf.test.\n\
            ns A 127.0.0.1\n\
            ns AAAA 0:0:0:0:0:0:0:1\n\
            010-000-000-254 A 10.0.0.254\n\
            010-000-000-254 AAAA 2001:2:0:aaaa:0:0:a00:fe\n\
            010-000-000-255 A 10.0.0.255\n\
            010-000-000-255 AAAA 2001:2:0:aaaa:0:0:a00:ff\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn other_ttls_stand_in_their_lines() {
        let (_, text) = written(ZoneConfig { negative_ttl_s: 7, ..config("10.0.0.0/32", 0) });
        assert!(text.contains("\n@ 7 SOA ns.") && text.contains(" 86400 7\n"), "{text}");
    }

    #[test]
    fn the_forecast_is_close() {
        for (names, share) in [("10.0.0.0/16", 50), ("10.0.0.0/30", 100), ("198.18.128.0/17", 0)] {
            let (forecast, text) = written(config(names, share));
            let error = forecast.octets as f64 / text.len() as f64 - 1.0;
            assert!(error.abs() < 0.02, "{names}: {forecast:?} for {}", text.len());
        }
    }

    #[test]
    fn each_name_has_all_its_addresses() {
        let (_, text) = written(ZoneConfig { addresses_per_name: 2, ..config("10.0.0.7/32", 0) });
        assert!(text.ends_with("010-000-000-007 A 10.0.0.7\n010-000-000-007 A 10.0.0.6\n"), "{text}");
    }

    #[test]
    fn what_no_file_holds_is_refused_by_its_option() {
        let types = Rules { types: true, ..Rules::default() };
        let records = RecordsFile { name: "www".into(), text: "www 60 A 192.0.2.1".into() };
        let signing = Signing { key: SigningKey::from_seed("x"), inception_s: 0, expiration_s: 1 };
        for (option, config) in [
            ("--rules", ZoneConfig { rules: types, ..ZoneConfig::default() }),
            ("--records", ZoneConfig { records: Some(records), ..ZoneConfig::default() }),
            ("--signed", ZoneConfig { signing: Some(signing), ..ZoneConfig::default() }),
        ] {
            let refused = ZoneFile::new(&Zone::new(config).unwrap()).unwrap_err().to_string();
            assert!(refused.contains(&format!("leave out {option}")), "{refused}");
        }
    }

    #[test]
    fn it_ends_when_the_watcher_says_so() {
        let zone = Zone::new(ZoneConfig::default()).unwrap();
        let file = ZoneFile::new(&zone).unwrap();
        assert_eq!(file.forecast().names, 1 << 32);
        let ended = file.write(&mut io::sink(), |written| written < 100_000).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
    }
}
