//! DNSSEC signatures, made when they are asked for (RFC 4034), with one Ed25519 key for all zones (RFC 8080).
//!
//! Ed25519 signatures have no random part, so the same question has the same answer wherever it is asked.

use std::fmt;

use dns64::wire::{CLASS_IN, Name, names_in_rdata};
use ring::digest;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::sets::RecordSet;

/// Ed25519 (RFC 8080 4).
const ALGORITHM: u8 = 15;
/// The key signs all records and is the trust anchor: ZONE and SEP (RFC 4034 2.1.1).
const KEY_FLAGS: u16 = 257;
const PROTOCOL: u8 = 3;
/// The digest of DS records: SHA-256 (RFC 4509).
const DIGEST_SHA256: u8 = 2;
const PUBLIC_KEY_OCTETS: usize = 32;
const DNSKEY_OCTETS: usize = 4 + PUBLIC_KEY_OCTETS;

/// The private part of an Ed25519 key.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey([u8; 32]);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// The key whose private part is the SHA-256 hash of a text. Whoever knows the text has the key.
    pub fn from_seed(seed: &str) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(digest::digest(&digest::SHA256, seed.as_bytes()).as_ref());
        Self(key)
    }

    /// Reads a private key as BIND's dnssec-keygen writes it (`Kname.+015+nnnnn.private`).
    ///
    /// # Errors
    /// What is missing or wrong, and what to do.
    pub fn from_private_key_file(text: &str) -> Result<Self, String> {
        let field = |name: &str| {
            let value = |line: &'_ str| Some(line.split_once(':')?.1.trim().to_owned());
            text.lines().find(|line| line.starts_with(name)).and_then(value)
        };
        let hint = "make one with: dnssec-keygen -a ED25519 -f KSK dns64perf.test";
        let algorithm = field("Algorithm").ok_or(format!("no line 'Algorithm:' of a private key; {hint}"))?;
        if algorithm.split_whitespace().next() != Some("15") {
            return Err(format!("algorithm {algorithm}: only 15 (ED25519) signs here; {hint}"));
        }
        let encoded = field("PrivateKey").ok_or(format!("no line 'PrivateKey:'; {hint}"))?;
        let octets: Vec<u8> = domain::utils::base64::decode(&encoded)
            .map_err(|error| format!("PrivateKey: {error}; {hint}"))?;
        octets.try_into().map(Self).map_err(|_| format!("PrivateKey: must have 32 octets; {hint}"))
    }
}

/// How a zone is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The Ed25519 key that signs (RFC 8080).
    pub key: SigningKey,
    /// From when the signatures hold, in seconds since 1970, modulo 2^32 (RFC 4034 3.1.5).
    pub inception_s: u32,
    /// Until when they hold.
    pub expiration_s: u32,
}

/// What a validating resolver must be told of a signed zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustAnchor {
    /// The zone, with a dot at the end.
    pub zone: String,
    /// RDATA of its DS record as text: key tag, algorithm, digest type, digest.
    pub ds: String,
    /// RDATA of its DNSKEY record as text: flags, protocol, algorithm, key.
    pub dnskey: String,
}

impl TrustAnchor {
    /// The text of a file that Unbound (`trust-anchor-file`) and Knot Resolver (`trust_anchors.add_file`)
    /// read as it is; what BIND and PowerDNS Recursor (of several files it reads the last) are told stands in
    /// it as comments.
    pub fn file_text(&self) -> String {
        let Self { zone, ds, dnskey } = self;
        let (flags, key) = dnskey.rsplit_once(' ').unwrap_or_default();
        format!(
            "; BIND, in named.conf: trust-anchors {{ \"{zone}\" static-key {flags} \"{key}\"; }};\n\
             ; PowerDNS Recursor, in lua-config-file: addTA('{zone}', '{ds}')\n\
             {zone} 3600 IN DS {ds}\n{zone} 3600 IN DNSKEY {dnskey}\n"
        )
    }
}

/// A key ready to sign, for as long as the signatures hold.
#[derive(Debug)]
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    dnskey: [u8; DNSKEY_OCTETS],
    key_tag: u16,
    signing: Signing,
}

impl Signer {
    /// Derives the public key. `None` for the impossible: every 32 octets are a key.
    pub fn new(signing: &Signing) -> Option<Self> {
        let key = Ed25519KeyPair::from_seed_unchecked(&signing.key.0).ok()?;
        let mut dnskey = [0; DNSKEY_OCTETS];
        dnskey[..2].copy_from_slice(&KEY_FLAGS.to_be_bytes());
        (dnskey[2], dnskey[3]) = (PROTOCOL, ALGORITHM);
        dnskey[4..].copy_from_slice(key.public_key().as_ref());
        Some(Self { key, dnskey, key_tag: key_tag(&dnskey), signing: signing.clone() })
    }

    /// RDATA of the DNSKEY record.
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    /// RDATA of the RRSIG record of a set that stands in the zone `apex` (RFC 4034 3.1).
    pub fn sign(&self, set: &RecordSet, apex: &Name) -> Vec<u8> {
        let Signing { inception_s, expiration_s, .. } = self.signing;
        let mut rdata = Vec::with_capacity(18 + 255 + 64);
        rdata.extend(set.rtype.to_be_bytes());
        rdata.extend([ALGORITHM, label_count(&set.owner)]);
        rdata.extend([set.ttl_s, expiration_s, inception_s].map(u32::to_be_bytes).concat());
        rdata.extend(self.key_tag.to_be_bytes());
        rdata.extend(apex.to_lowercase().as_wire());
        let signed = [&rdata[..], &canonical(set)].concat();
        rdata.extend(self.key.sign(&signed).as_ref());
        rdata
    }

    /// What resolvers must be told of a zone that this key signs.
    pub fn trust_anchor(&self, apex: &Name) -> TrustAnchor {
        let hashed = [apex.to_lowercase().as_wire(), &self.dnskey].concat();
        let digest = digest::digest(&digest::SHA256, &hashed);
        let digest: String = digest.as_ref().iter().map(|octet| format!("{octet:02X}")).collect();
        let key = domain::utils::base64::encode_string(&self.dnskey[4..]);
        TrustAnchor {
            zone: apex.to_string(),
            ds: format!("{} {ALGORITHM} {DIGEST_SHA256} {digest}", self.key_tag),
            dnskey: format!("{KEY_FLAGS} {PROTOCOL} {ALGORITHM} {key}"),
        }
    }
}

/// The labels of a name without the asterisk of a wildcard (RFC 4034 3.1.3): more would mark the signature as
/// wrong, fewer the owner as made of a wildcard.
fn label_count(owner: &Name) -> u8 {
    let is_wildcard = owner.labels().next() == Some(b"*");
    (owner.labels().count() - usize::from(is_wildcard)) as u8
}

/// The records in canonical form and order (RFC 4034 6).
fn canonical(set: &RecordSet) -> Vec<u8> {
    let mut rdatas = set.rdatas.clone();
    for rdata in &mut rdatas {
        lower_names(set.rtype, rdata);
    }
    rdatas.sort_unstable();
    let owner = set.owner.to_lowercase();
    let mut octets = Vec::new();
    for rdata in rdatas {
        octets.extend(owner.as_wire());
        octets.extend(set.rtype.to_be_bytes());
        octets.extend(CLASS_IN.to_be_bytes());
        octets.extend(set.ttl_s.to_be_bytes());
        octets.extend((rdata.len() as u16).to_be_bytes());
        octets.extend(rdata);
    }
    octets
}

fn lower_names(rtype: u16, rdata: &mut [u8]) {
    let (mut at, names) = names_in_rdata(rtype);
    for _ in 0..names {
        let Ok((_, end)) = Name::parse(rdata, at) else { return };
        // Length octets are below 64 and so are never letters.
        rdata[at..end].make_ascii_lowercase();
        at = end;
    }
}

/// RFC 4034 appendix B.
fn key_tag(dnskey: &[u8]) -> u16 {
    let words = dnskey.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first example of RFC 8080 6.1.
    const EXAMPLE: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
        PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

    fn example() -> Signer {
        let key = SigningKey::from_private_key_file(EXAMPLE).unwrap();
        Signer::new(&Signing { key, inception_s: 1_438_207_200, expiration_s: 1_440_021_600 }).unwrap()
    }

    #[test]
    fn the_literal_example_of_rfc_8080() {
        let signer = example();
        let apex = Name::from_text("example.com").unwrap();
        let anchor = signer.trust_anchor(&apex);
        assert_eq!(anchor.dnskey, "257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=");
        let digest = "3AA5AB37EFCE57F737FC1627013FEE07BDF241BD10F3B1964AB55C78E79A304B";
        assert_eq!(anchor.ds, format!("3613 15 2 {digest}"));

        let mx = [&[0, 10][..], b"\x04mail\x07example\x03com\0"].concat();
        let set = RecordSet::new(apex, dns64::wire::rtype::MX, 3600, vec![mx]);
        let rrsig = signer.sign(&set, &apex);
        let signature = domain::utils::base64::encode_string(&rrsig[rrsig.len() - 64..]);
        assert_eq!(
            signature,
            "oL9krJun7xfBOIWcGHi7mag5/hdZrKWw15jPGrHpjQeRAvTdszaPD+QLs3fx8A4M3e23mRZ9VrbpMngwcrqNAg=="
        );
    }

    #[test]
    fn the_asterisk_of_a_wildcard_is_no_label() {
        for (owner, labels) in [("*.any.test", 2), ("a.*.test", 3), ("test", 1), (".", 0)] {
            assert_eq!(label_count(&Name::from_text(owner).unwrap()), labels, "{owner}");
        }
    }

    #[test]
    fn bad_keys_are_told() {
        let error = |text: &str| SigningKey::from_private_key_file(text).unwrap_err();
        assert!(error("").contains("no line 'Algorithm:'"));
        assert!(error("Algorithm: 13 (ECDSAP256SHA256)\n").contains("only 15 (ED25519)"));
        assert!(error("Algorithm: 15\n").contains("no line 'PrivateKey:'"));
        assert!(error("Algorithm: 15\nPrivateKey: !\n").contains("PrivateKey"));
        assert!(error("Algorithm: 15\nPrivateKey: AAAA\n").contains("32 octets"));
        assert_eq!(format!("{:?}", SigningKey::from_seed("x")), "SigningKey", "never shown");
    }
}
