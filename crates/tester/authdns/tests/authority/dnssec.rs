//! A validator of its own for what one answer must hold: every set signed, everything that is not there
//! proven not to be.

use std::collections::BTreeMap;

use authdns::{Signing, SigningKey, Zone, ZoneConfig};
use domain::base::iana::{Rcode, Rtype};
use domain::base::name::{ParsedName, ToName};
use domain::base::rdata::ComposeRecordData;
use domain::base::{CanonicalOrd, Message, Name};
use domain::rdata::{AllRecordData, Nsec3, Rrsig};
use domain::utils::{base32, base64};
use proptest::test_runner::TestCaseError;
use ring::digest;
use ring::signature::{ED25519, UnparsedPublicKey};

type Data<'a> = AllRecordData<&'a [u8], ParsedName<&'a [u8]>>;
type Owner = Name<Vec<u8>>;
/// The sets of a section, by owner and type.
type Sets<'a> = BTreeMap<(String, Rtype), Vec<(Owner, Data<'a>)>>;

pub fn signed(config: ZoneConfig) -> ZoneConfig {
    let key = SigningKey::from_seed("a test");
    ZoneConfig { signing: Some(Signing { key, inception_s: 1_000, expiration_s: 2_000 }), ..config }
}

/// The verdict on an answer to a question of this type.
pub fn check(zone: &Zone, answer: &[u8], qtype: u16) -> Result<(), TestCaseError> {
    let message = Message::from_octets(answer).unwrap();
    if !message.header().aa() {
        return Ok(());
    }
    let anchor = &zone.trust_anchors()[0];
    let key: Vec<u8> = base64::decode(anchor.dnskey.rsplit(' ').next().unwrap()).unwrap();
    let key = UnparsedPublicKey::new(&ED25519, key);
    let in_answer = sets(answer, true);
    let in_authority = sets(answer, false);
    for sets in [&in_answer, &in_authority] {
        check_signatures(sets, &key)?;
    }
    let last = last_name(&message, &in_answer);
    let proof = Proof::new(&in_authority);
    let hashes = || proof.nsec3.iter().map(|(owner, _)| owner);
    match message.header().rcode() {
        Rcode::NXDOMAIN => {
            ensure(proof.denies_name(&last), format!("{last}: {:?}", hashes().collect::<Vec<_>>()))
        }
        Rcode::NOERROR if in_authority.keys().any(|(_, rtype)| *rtype == Rtype::SOA) => {
            ensure(proof.denies_type(&last, Rtype::from_int(qtype)), format!("{last} {qtype}"))
        }
        _ => Ok(()),
    }
}

fn ensure(holds: bool, what: impl Into<String>) -> Result<(), TestCaseError> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(what.into())) }
}

fn sets(answer: &[u8], of_answer: bool) -> Sets<'_> {
    let message = Message::from_octets(answer).unwrap();
    let section = if of_answer { message.answer().unwrap() } else { message.authority().unwrap() };
    let mut sets = Sets::new();
    for record in section {
        let record = record.unwrap().into_any_record::<Data<'_>>().unwrap();
        let owner: Owner = record.owner().to_canonical_name();
        sets.entry((owner.to_string(), record.rtype())).or_default().push((owner, record.into_data()));
    }
    sets
}

/// Where the CNAME records of an answer lead, from the question on.
fn last_name(message: &Message<&[u8]>, answer: &Sets<'_>) -> Owner {
    let mut name: Owner = message.sole_question().unwrap().qname().to_canonical_name();
    for _ in 0..answer.len() {
        match answer.get(&(name.to_string(), Rtype::CNAME)).map(|set| &set[0].1) {
            Some(AllRecordData::Cname(cname)) => name = cname.cname().to_canonical_name(),
            _ => break,
        }
    }
    name
}

fn check_signatures(sets: &Sets<'_>, key: &UnparsedPublicKey<Vec<u8>>) -> Result<(), TestCaseError> {
    let empty = Vec::new();
    for ((owner, rtype), set) in sets.iter().filter(|((_, rtype), _)| *rtype != Rtype::RRSIG) {
        // A CNAME record below a DNAME record is what that says.
        let is_synthesized = |(above, at): &&(String, Rtype)| {
            *at == Rtype::DNAME && owner != above && (owner.ends_with(&format!(".{above}")) || above == ".")
        };
        if *rtype == Rtype::CNAME && sets.keys().any(|set| is_synthesized(&set)) {
            continue;
        }
        let signatures = sets.get(&(owner.clone(), Rtype::RRSIG)).unwrap_or(&empty);
        let verified = signatures.iter().any(|(_, data)| match data {
            AllRecordData::Rrsig(rrsig) if rrsig.type_covered() == *rtype => {
                rrsig.labels() == set[0].0.rrsig_label_count() && verify(rrsig, set, key).is_ok()
            }
            _ => false,
        });
        ensure(verified, format!("{owner} {rtype} is not signed"))?;
    }
    Ok(())
}

/// RFC 4034 3.1.8.1, with the library's canonical form and order.
fn verify(
    rrsig: &Rrsig<&[u8], ParsedName<&[u8]>>,
    set: &[(Owner, Data<'_>)],
    key: &UnparsedPublicKey<Vec<u8>>,
) -> Result<(), ring::error::Unspecified> {
    let mut signed = Vec::new();
    signed.extend(rrsig.type_covered().to_int().to_be_bytes());
    signed.extend([rrsig.algorithm().to_int(), rrsig.labels()]);
    for word in [rrsig.original_ttl().as_secs(), rrsig.expiration().into_int(), rrsig.inception().into_int()]
    {
        signed.extend(word.to_be_bytes());
    }
    signed.extend(rrsig.key_tag().to_be_bytes());
    rrsig.signer_name().compose_canonical(&mut signed).unwrap();
    let mut set: Vec<_> = set.iter().collect();
    set.sort_by(|(_, a), (_, b)| a.canonical_cmp(b));
    for (owner, data) in set {
        owner.compose_canonical(&mut signed).unwrap();
        signed.extend(rrsig.type_covered().to_int().to_be_bytes());
        signed.extend([0, 1]);
        signed.extend(rrsig.original_ttl().as_secs().to_be_bytes());
        data.compose_canonical_len_rdata(&mut signed).unwrap();
    }
    key.verify(&signed, rrsig.signature())
}

/// The NSEC3 records of an answer: hash of the owner, and the rest.
struct Proof<'s, 'a> {
    nsec3: Vec<(Vec<u8>, &'s Nsec3<&'a [u8]>)>,
}

impl<'s, 'a> Proof<'s, 'a> {
    fn new(authority: &'s Sets<'a>) -> Self {
        let records = authority.values().flatten().filter_map(|(owner, data)| match data {
            AllRecordData::Nsec3(nsec3) => {
                let label = owner.first().to_string().to_ascii_uppercase();
                Some((base32::decode_hex::<Vec<u8>>(&label).unwrap(), nsec3))
            }
            _ => None,
        });
        Self { nsec3: records.collect() }
    }

    fn matching(&self, name: &Owner) -> Option<&Nsec3<&'a [u8]>> {
        let hash = hash(name);
        self.nsec3.iter().find(|(owner, _)| *owner == hash).map(|(_, nsec3)| *nsec3)
    }

    fn covers(&self, name: &Owner) -> bool {
        let hash = hash(name);
        self.nsec3.iter().any(|(owner, nsec3)| {
            let next = nsec3.next_owner().as_slice();
            if &owner[..] < next {
                owner[..] < hash[..] && hash[..] < *next
            } else {
                owner[..] < hash[..] || hash[..] < *next
            }
        })
    }

    fn denies_type(&self, name: &Owner, qtype: Rtype) -> bool {
        self.matching(name)
            .is_some_and(|nsec3| !nsec3.types().contains(qtype) && !nsec3.types().contains(Rtype::CNAME))
    }

    /// RFC 5155 8.4.
    fn denies_name(&self, name: &Owner) -> bool {
        let mut next_closer = name.clone();
        while let Some(encloser) = next_closer.parent() {
            let encloser: Owner = encloser.to_canonical_name();
            if self.matching(&encloser).is_some() {
                let wildcard: Owner =
                    Name::from_octets([&b"\x01*"[..], encloser.as_slice()].concat()).unwrap();
                return self.covers(&next_closer) && self.covers(&wildcard) && self.matching(name).is_none();
            }
            next_closer = encloser;
        }
        false
    }
}

fn hash(name: &Owner) -> Vec<u8> {
    digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, name.as_slice()).as_ref().to_vec()
}
