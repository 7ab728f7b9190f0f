//! Zones signed as they are asked for, a server for them, and a client of the room.
//!
//! `.` and `test` and `secure.test` are signed, `insecure.test` is delegated without DS.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dns64::wire::{
    CLASS_IN, Edns, Header, Message, Name, Options, Question, Section, Writer, option_code, rcode, rtype,
};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use streams::{Protocol, Upstream};
use validation::{Anchors, Answer, Counts, Handle, Validation};

pub const NSEC: u16 = 47;
/// ECDSA over P-256 with SHA-256.
const ALGORITHM: u8 = 13;
const TTL_S: u32 = 300;
const TIMEOUT: Duration = Duration::from_secs(10);

pub fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

pub fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

/// A record of a reply.
#[derive(Clone)]
pub struct Entry {
    pub section: Section,
    pub owner: Name,
    pub rtype: u16,
    pub ttl_s: u32,
    pub rdata: Vec<u8>,
}

/// A reply before it is written.
#[derive(Clone, Default)]
pub struct Reply {
    pub rcode: u8,
    pub entries: Vec<Entry>,
}

/// A zone and its only key.
pub struct Zone {
    pub name: Name,
    key: EcdsaKeyPair,
}

/// The keys of all zones: the same wherever a zone is made.
static KEYS: LazyLock<Mutex<HashMap<String, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// From when until when a signature is good, in seconds since 1970.
pub type Times = (u32, u32);

impl Zone {
    pub fn new(text: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let new = || EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap().as_ref().to_vec();
        let key = KEYS.lock().unwrap().entry(text.to_owned()).or_insert_with(new).clone();
        Self { name: name(text), key: EcdsaKeyPair::from_pkcs8(algorithm, &key, &random).unwrap() }
    }

    pub fn dnskey(&self) -> Vec<u8> {
        // The point comes with an octet for its form, which DNSKEY records leave out (RFC 6605 4).
        [&[1, 1, 3, ALGORITHM], &self.key.public_key().as_ref()[1..]].concat()
    }

    /// RFC 4034 appendix B.
    fn tag(&self) -> u16 {
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair[1]);
        let sum: u32 = self.dnskey().chunks(2).map(word).sum();
        (sum + (sum >> 16)) as u16
    }

    pub fn ds(&self) -> Vec<u8> {
        let hashed = [self.name.to_lowercase().as_wire(), &self.dnskey()].concat();
        let digest = digest::digest(&digest::SHA256, &hashed);
        [&self.tag().to_be_bytes()[..], &[ALGORITHM, 2], digest.as_ref()].concat()
    }

    pub fn anchor(&self, owner: &str) -> String {
        let digest: String = self.ds()[4..].iter().map(|octet| format!("{octet:02X}")).collect();
        format!("{owner} IN DS {} {ALGORITHM} 2 {digest}", self.tag())
    }

    /// A signature of this set as `source` spells its owner: another one for what a wildcard made.
    pub fn sign(&self, set: &[Entry], source: Name, times: Times) -> Entry {
        let (owner, covered) = (source.to_lowercase(), set[0].rtype);
        let labels = source.labels().filter(|label| *label != b"*").count() as u8;
        let mut head = covered.to_be_bytes().to_vec();
        head.extend([ALGORITHM, labels]);
        for word in [TTL_S, times.1, times.0] {
            head.extend(word.to_be_bytes());
        }
        head.extend(self.tag().to_be_bytes());
        head.extend(self.name.as_wire());
        let mut signed = head.clone();
        let mut rdatas: Vec<&[u8]> = set.iter().map(|entry| entry.rdata.as_slice()).collect();
        rdatas.sort_unstable();
        for rdata in rdatas {
            signed.extend(owner.as_wire());
            signed.extend([covered.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
            signed.extend(TTL_S.to_be_bytes());
            signed.extend((rdata.len() as u16).to_be_bytes());
            signed.extend(rdata);
        }
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        let rdata = [&head, signature.as_ref()].concat();
        Entry { rtype: rtype::RRSIG, rdata, ..set[0].clone() }
    }
}

/// Signatures are good for an hour around now.
pub fn good_times() -> Times {
    (now_s() - 3600, now_s() + 3600)
}

/// The bitmap of NSEC records (RFC 4034 4.1.2), for types below 256.
pub fn bitmap(types: &[u16]) -> Vec<u8> {
    let mut bits = [0; 32];
    for &rtype in types {
        bits[usize::from(rtype / 8)] |= 0x80 >> (rtype % 8);
    }
    let length = bits.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    [&[0, length as u8], &bits[..length]].concat()
}

pub fn entry(section: Section, owner: &str, rtype: u16, rdata: &[u8]) -> Entry {
    Entry { section, owner: name(owner), rtype, ttl_s: TTL_S, rdata: rdata.to_vec() }
}

/// All zones.
pub struct World {
    pub root: Zone,
    pub test: Zone,
    pub secure: Zone,
}

impl World {
    pub fn new() -> Self {
        Self { root: Zone::new("."), test: Zone::new("test"), secure: Zone::new("secure.test") }
    }

    /// What an honest server says.
    pub fn reply(&self, question: &Question) -> Reply {
        let mut reply = Reply::default();
        let text = text(&question.name);
        let (answer, authority) = (Section::Answer, Section::Authority);
        match (text.as_str(), question.qtype) {
            (_, rtype::DNSKEY) => {
                let zone = [&self.root, &self.test, &self.secure]
                    .into_iter()
                    .find(|zone| zone.name == question.name);
                if let Some(zone) = zone {
                    reply.add(zone, entry(answer, &text, rtype::DNSKEY, &zone.dnskey()));
                }
            }
            ("test.", rtype::DS) => reply.add(&self.root, entry(answer, &text, rtype::DS, &self.test.ds())),
            ("secure.test.", rtype::DS) => {
                reply.add(&self.test, entry(answer, &text, rtype::DS, &self.secure.ds()));
            }
            ("insecure.test.", rtype::DS) => {
                reply.soa(&self.test);
                reply.nsec(&self.test, &text, "secure.test", &[rtype::NS, rtype::RRSIG, NSEC]);
            }
            ("www.secure.test.", rtype::A | rtype::ANY) => {
                reply.add(&self.secure, entry(answer, &text, rtype::A, &[192, 0, 2, 1]));
            }
            ("alias.secure.test.", rtype::A) => {
                let target = name("www.insecure.test");
                reply.add(&self.secure, entry(answer, &text, rtype::CNAME, target.as_wire()));
                reply.entries.push(entry(answer, "www.insecure.test", rtype::A, &[192, 0, 2, 2]));
            }
            ("a.wild.secure.test.", rtype::A) => {
                let expanded = entry(answer, &text, rtype::A, &[192, 0, 2, 3]);
                let source = name("*.wild.secure.test");
                reply.entries.push(expanded.clone());
                reply.entries.push(self.secure.sign(&[expanded], source, good_times()));
                reply.nsec(
                    &self.secure,
                    "*.wild.secure.test",
                    "www.secure.test",
                    &[rtype::A, rtype::RRSIG, NSEC],
                );
            }
            ("www.secure.test.", _) => {
                reply.soa(&self.secure);
                reply.nsec(&self.secure, &text, "secure.test", &[rtype::A, rtype::RRSIG, NSEC]);
            }
            ("www.insecure.test.", rtype::A) => {
                reply.entries.push(entry(answer, &text, rtype::A, &[192, 0, 2, 2]));
            }
            (_, _) if text.ends_with(".insecure.test.") => {
                reply.entries.push(entry(authority, "insecure.test", rtype::SOA, &soa()));
            }
            _ => {
                reply.rcode = rcode::NXDOMAIN;
                reply.soa(&self.secure);
                let types = [rtype::NS, rtype::SOA, rtype::RRSIG, NSEC, rtype::DNSKEY];
                reply.nsec(&self.secure, "secure.test", "*.wild.secure.test", &types);
            }
        }
        reply
    }
}

impl Reply {
    /// Adds a record and its signature.
    pub fn add(&mut self, zone: &Zone, entry: Entry) {
        let signature = zone.sign(std::slice::from_ref(&entry), entry.owner, good_times());
        self.entries.extend([entry, signature]);
    }

    fn soa(&mut self, zone: &Zone) {
        self.add(zone, entry(Section::Authority, &text(&zone.name), rtype::SOA, &soa()));
    }

    fn nsec(&mut self, zone: &Zone, owner: &str, next: &str, types: &[u16]) {
        let rdata = [name(next).as_wire(), &bitmap(types)].concat();
        self.add(zone, entry(Section::Authority, owner, NSEC, &rdata));
    }

    /// Takes records out.
    pub fn drop_type(&mut self, rtype: u16) {
        self.entries.retain(|entry| entry.rtype != rtype);
    }

    fn write(&self, query: &Message<'_>) -> Vec<u8> {
        let mut octets = vec![0; 65_535];
        let flags =
            Header::QR | Header::RA | query.header.flags & (Header::RD | Header::CD) | u16::from(self.rcode);
        let mut writer = Writer::new(&mut octets, query.header.id, flags, &query.question()).unwrap();
        for section in [Section::Answer, Section::Authority, Section::Additional] {
            for Entry { owner, rtype, ttl_s, rdata, .. } in
                self.entries.iter().filter(|e| e.section == section)
            {
                writer.record(section, owner, *rtype, CLASS_IN, *ttl_s, rdata).unwrap();
            }
        }
        let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };
        writer.edns(&edns, &[]).unwrap();
        let length = writer.finish();
        octets.truncate(length);
        octets
    }
}

fn soa() -> Vec<u8> {
    let numbers: Vec<u8> = [1_u32, 2, 3, 4, 60].iter().flat_map(|number| number.to_be_bytes()).collect();
    [&[0, 0], numbers.as_slice()].concat()
}

pub fn text(name: &Name) -> String {
    let labels: String =
        name.labels().map(|label| format!("{}.", String::from_utf8_lossy(label).to_lowercase())).collect();
    if labels.is_empty() { ".".to_owned() } else { labels }
}

/// Changes a reply before it leaves; `None` keeps silent.
type Tamper = dyn FnMut(&World, &Question, Reply) -> Option<Reply> + Send;

/// A room with one upstream server.
pub struct Room {
    room: Validation,
    handle: Handle,
    answers: Receiver<Answer>,
    pub asked: Arc<Mutex<Vec<(String, u16)>>>,
}

/// What came back.
pub struct Seen {
    pub octets: Vec<u8>,
}

impl Room {
    /// An honest server.
    pub fn honest() -> Self {
        Self::with(|_, _, reply| Some(reply))
    }

    pub fn with(tamper: impl FnMut(&World, &Question, Reply) -> Option<Reply> + Send + 'static) -> Self {
        Self::anchored(&World::new().root.anchor("."), tamper)
    }

    pub fn anchored(
        anchors: &str,
        tamper: impl FnMut(&World, &Question, Reply) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let asked = Arc::<Mutex<Vec<(String, u16)>>>::default();
        let address = serve(asked.clone(), Arc::new(Mutex::new(tamper)));
        let (sender, answers) = mpsc::channel();
        let room = Validation::start(move |answer| sender.send(answer).unwrap_or_default()).unwrap();
        let upstream = Upstream {
            address,
            protocol: Protocol::Tcp,
            tls_name: None,
            path: String::new(),
            source: None,
            roots: None,
            in_flight: streams::UPSTREAM_IN_FLIGHT_MAX,
        };
        room.set_upstreams(1, vec![upstream], &Anchors::parse(anchors).unwrap()).unwrap();
        Self { handle: room.handle(), room, answers, asked }
    }

    pub fn counts(&self) -> Counts {
        self.room.counts()
    }

    /// Asks with DO.
    pub fn ask(&self, owner: &str, qtype: u16) -> Option<Seen> {
        self.send(owner, qtype, 0, true, TIMEOUT);
        self.receive()
    }

    pub fn ask_plain(&self, owner: &str, qtype: u16, flags: u16) -> Option<Seen> {
        self.send(owner, qtype, flags, false, TIMEOUT);
        self.receive()
    }

    pub fn send(&self, owner: &str, qtype: u16, flags: u16, dnssec_ok: bool, timeout: Duration) {
        let question = Question { name: name(owner), qtype, qclass: CLASS_IN };
        let mut octets = vec![0; 512];
        let mut writer = Writer::new(&mut octets, 77, Header::RD | flags, &question).unwrap();
        writer.edns(&Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok }, &[]).unwrap();
        let length = writer.finish();
        octets.truncate(length);
        self.handle.ask(1, 0, 5, octets, timeout);
    }

    pub fn receive(&self) -> Option<Seen> {
        let answer = self.answers.recv_timeout(TIMEOUT * 2).unwrap();
        assert_eq!(answer.token, 5);
        answer.octets.ok().map(|octets| Seen { octets })
    }
}

impl Seen {
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.octets).unwrap()
    }

    /// RCODE, AD, and the extended error.
    pub fn verdict(&self) -> (u8, bool, Option<u16>) {
        let message = self.message();
        assert_eq!(message.header.id, 77);
        let error = Options::of(&message).find(option_code::EXTENDED_ERROR);
        let code = error.map(|value| u16::from_be_bytes([value[0], value[1]]));
        (message.header.rcode(), message.header.has(Header::AD), code)
    }

    /// The words of the extended error (RFC 8914 2).
    pub fn extended_error_text(&self) -> String {
        let error = Options::of(&self.message()).find(option_code::EXTENDED_ERROR).unwrap_or_default();
        String::from_utf8_lossy(error.get(2..).unwrap_or_default()).into_owned()
    }

    pub fn count(&self, rtype: u16) -> usize {
        self.message().records().filter(|record| record.as_ref().unwrap().rtype == rtype).count()
    }
}

/// Answers over TCP until the process ends.
fn serve(asked: Arc<Mutex<Vec<(String, u16)>>>, tamper: Arc<Mutex<Tamper>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (asked, tamper) = (asked.clone(), tamper.clone());
            std::thread::spawn(move || converse(stream, &asked, &tamper));
        }
    });
    address
}

fn converse(mut stream: TcpStream, asked: &Mutex<Vec<(String, u16)>>, tamper: &Mutex<Tamper>) {
    let world = World::new();
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let query = Message::parse(&query).unwrap();
        asked.lock().unwrap().push((text(&query.question().name), query.qtype));
        let honest = world.reply(&query.question());
        let Some(reply) = tamper.lock().unwrap()(&world, &query.question(), honest) else { continue };
        let octets = reply.write(&query);
        let frame = [&(octets.len() as u16).to_be_bytes(), octets.as_slice()].concat();
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}
