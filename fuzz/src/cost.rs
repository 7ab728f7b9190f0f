//! Messages that are made to cost much: none costs dns64d's machine more than twenty times a plain one of its
//! size, counted in steps ([`dns64::steps`]), neither when it comes from a client or an upstream server nor
//! out of the cache.
//!
//! An input describes a client's message and the records of the replies to it: long names that differ where a
//! comparison comes last, pointers to them, many times over. The message of the client may have many records
//! and options, and say any room for the answer.

use std::sync::Arc;

use dns64::Prefix;
use dns64::rewrite::OPT_LENGTH;
use dns64::rule::Policy;
use dns64::steps;
use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Message, Name, Question, Writer, rtype};
use server_core::client::{Channel, Client, StreamKind};
use server_core::machine::{Notice, Shared};
use server_core::{Machine, Output, Settings};

use super::input::Input;

/// A message costs at most so many times as much as a plain one of its size.
pub const TIMES_MAX: u64 = 20;

const MESSAGE_OCTETS_MAX: usize = 65_535;
/// The longest datagram to a client.
const ROOM_OCTETS_MAX: u16 = 1232;
const CACHE_OCTETS: usize = 1 << 20;
const TTL_S: [u8; 4] = [0, 0, 1, 0];
const TYPES: [u16; 12] = [
    rtype::A,
    rtype::AAAA,
    rtype::CNAME,
    rtype::DNAME,
    rtype::NS,
    rtype::SOA,
    rtype::MX,
    rtype::SRV,
    rtype::RRSIG,
    47,
    rtype::TXT,
    rtype::OPT,
];

/// The steps of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The octets of the longest reply.
    pub octets: usize,
    /// How many replies the client's question needs, and needs once more: none if they are kept.
    pub replies: [u64; 2],
    /// The question and the replies, when they come.
    pub miss: u64,
    /// The question once more, and the replies if they were not kept.
    pub hit: u64,
}

/// Holds the bound for what an input describes.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.octet();
    let question = Question {
        name: long_name(&mut input),
        qtype: if choice & 1 == 0 { rtype::AAAA } else { rtype::A },
        qclass: CLASS_IN,
    };
    let mut ask = Ask::new(&question, choice & 2 == 0);
    if choice & 4 != 0 {
        ask.lengthen(&mut input);
    }
    ask.respelled = choice & 8 != 0;
    assert_bounded(&ask, |head| reply(head, input));
}

/// Holds the bound for a client's message and the replies to it. The plain message has the same size and says
/// the same room, and the plain reply in the cache fits this room.
pub fn assert_bounded(ask: &Ask, reply: impl Fn(Vec<u8>) -> Vec<u8>) {
    let cost = cost(ask, reply);
    let [plain, plain_hit] = [cost.octets, cost.octets.min(ask.room_octets())].map(|octets| {
        let plain = plain_cost(ask, octets);
        (plain.miss, plain.hit)
    });
    let [first, again] = cost.replies;
    let miss_max = TIMES_MAX * first.max(1) * plain.0;
    let again_max = match again {
        0 => TIMES_MAX * first.max(1) * plain_hit.1,
        replies => TIMES_MAX * replies * plain.0,
    };
    assert!(cost.miss <= miss_max && cost.hit <= again_max, "{cost:?}, plain {plain:?}, {plain_hit:?}");
}

/// How a client asks.
#[derive(Clone, Debug)]
pub struct Ask {
    question: Question,
    over_udp: bool,
    query: Vec<u8>,
    /// The room for an answer that an OPT record says, where there is one.
    payload_octets: Option<u16>,
    /// The client spells the name in another way when it asks once more.
    pub respelled: bool,
}

impl Ask {
    /// A query without an OPT record.
    pub fn new(question: &Question, over_udp: bool) -> Self {
        let mut query = vec![0; 512];
        let length = Writer::new(&mut query, 7, Header::RD, question).map_or(0, Writer::finish);
        query.truncate(length);
        Self { question: *question, over_udp, query, payload_octets: None, respelled: false }
    }

    /// Adds an OPT record with these options that says so much room; less where that is too long.
    pub fn add_edns(&mut self, payload_octets: u16, mut options: Vec<u8>) {
        options.truncate(MESSAGE_OCTETS_MAX.saturating_sub(self.query.len() + OPT_LENGTH));
        self.payload_octets = Some(payload_octets);
        let at = self.query.len() + 3;
        add(&mut self.query, 3, &[0], rtype::OPT, &options);
        self.query[at..at + 2].copy_from_slice(&payload_octets.to_be_bytes());
    }

    /// Adds records and options as an input describes them: an octet for each of room, number of records,
    /// their section and type, number of options, and their length.
    fn lengthen(&mut self, input: &mut Input<'_>) {
        let [room, records, kind, options, length] = input.array();
        for _ in 1..1usize << (records % 14) {
            let longest = self.query.len() + 2 * OPT_LENGTH > MESSAGE_OCTETS_MAX;
            if longest || !add(&mut self.query, 1 + usize::from(kind % 3), &[0], rtype::TXT, &[]) {
                break;
            }
        }
        let option = [&[kind, kind, 0, length % 32][..], &vec![0; usize::from(length % 32)]].concat();
        self.add_edns([0, 512, 1232, 65_535][usize::from(room % 4)], option.repeat(1 << (options % 14)));
    }

    /// A query of the same size for an ordinary name, by the same way and with the same room: what is longer
    /// than a question is padding.
    fn plain(&self) -> Self {
        let name = Name::from_text("www.example.com").unwrap_or(Name::ROOT);
        let qtype = if self.question.qtype == rtype::AAAA { rtype::AAAA } else { rtype::A };
        let mut plain = Self::new(&Question { name, qtype, ..self.question }, self.over_udp);
        if let Some(payload_octets) = self.payload_octets {
            let padding = self.query.len().saturating_sub(plain.query.len() + OPT_LENGTH + 4);
            let [high, low] = (padding as u16).to_be_bytes();
            plain.add_edns(payload_octets, [&[0, 12, high, low][..], &vec![0; padding]].concat());
        }
        plain
    }

    fn room_octets(&self) -> usize {
        let payload_octets = self.payload_octets.unwrap_or(0).clamp(512, ROOM_OCTETS_MAX);
        if self.over_udp { payload_octets.into() } else { MESSAGE_OCTETS_MAX }
    }

    /// The message of the first or of a later time.
    fn message(&self, is_first: bool) -> Vec<u8> {
        let mut message = self.query.clone();
        if self.respelled && !is_first {
            let end = HEADER_LENGTH + self.question.name.as_wire().len();
            message[HEADER_LENGTH..end].make_ascii_uppercase();
        }
        message
    }
}

/// What replies cost that have as many addresses of an ordinary name as so many octets hold.
pub fn plain_cost(ask: &Ask, octets: usize) -> Cost {
    cost(&ask.plain(), |mut head| {
        if Message::parse(&head).is_ok_and(|message| message.qtype == rtype::A) {
            while head.len() + 16 <= octets.min(MESSAGE_OCTETS_MAX) {
                add(&mut head, 1, &[0xc0, 12], rtype::A, &[192, 0, 2, 1]);
            }
        } else {
            add(&mut head, 2, &[0xc0, 12], rtype::SOA, &[&[0, 0][..], &TTL_S.repeat(5)].concat());
        }
        head
    })
}

/// Asks twice; `reply` makes a reply of its head, which is header and question.
pub fn cost(ask: &Ask, reply: impl Fn(Vec<u8>) -> Vec<u8>) -> Cost {
    let mut settings = Settings::default();
    let prefix: Prefix = "2001:db8:64::/96".parse().expect("a prefix");
    settings.views[0].rule = Some(Policy { prefixes: vec![prefix], ..Policy::default() });
    let shared = Shared::new(&settings, CACHE_OCTETS, [7; 32]);
    let mut machine = Machine::new(Arc::new(settings), shared, [7; 32]);
    let mut wires = Wires::default();
    let channel = match ask.over_udp {
        true => Channel::Udp { socket: 0, local: None },
        false => Channel::Stream { token: 1, kind: StreamKind::Tcp },
    };
    let client = Client { address: ([127, 0, 0, 1], 1024).into(), listener: 0, channel };
    let mut octets = 0;
    let [(first, miss), (again, hit)] = [true, false].map(|is_first| {
        let (mut replies, message) = (0, ask.message(is_first));
        let mut steps = steps::of(|| {
            // It is received, for which it is copied once.
            steps::add_octets(message.len());
            machine.handle_client(1, client, &message, &mut wires);
        });
        while let Some((way, query)) = wires.queries.pop() {
            let reply = reply(head(&query));
            octets = reply.len().max(octets);
            replies += 1;
            steps += steps::of(|| match way {
                Way::Udp(socket) => machine.handle_upstream(1, 0, socket, &reply, &mut wires),
                Way::Stream(token) => machine.handle_upstream_stream(1, token, Some(&reply), &mut wires),
            });
        }
        (replies, steps)
    });
    Cost { octets, replies: [first, again], miss, hit }
}

/// The head of the reply to a query.
fn head(query: &[u8]) -> Vec<u8> {
    let end = Message::parse(query).map_or(query.len(), |message| message.question_end());
    let mut head = query[..end].to_vec();
    (head[2], head[3], head[11]) = (0x81, 0x80, 0);
    head
}

/// Adds a record to a section, 1 to 3; false where the message has no room.
pub fn add(message: &mut Vec<u8>, section: usize, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
    let count_at = 4 + 2 * section;
    let count = u16::from_be_bytes([message[count_at], message[count_at + 1]]);
    if message.len() + owner.len() + 10 + rdata.len() > MESSAGE_OCTETS_MAX {
        return false;
    }
    message.extend(owner);
    message.extend([rtype.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
    message.extend(TTL_S);
    message.extend((rdata.len() as u16).to_be_bytes());
    message.extend(rdata);
    message[count_at..count_at + 2].copy_from_slice(&(count + 1).to_be_bytes());
    true
}

/// Labels of one letter, and a last one that tells names apart.
fn long_name(input: &mut Input<'_>) -> Name {
    let (labels, last) = (input.octet() % 126, input.octet());
    let text = format!("{}{}", "a.".repeat(labels.into()), char::from(b'a' + last % 26));
    Name::from_text(&text).unwrap_or(Name::ROOT)
}

/// A reply with the records that an input describes: for each an octet that says its section and type, one
/// for its owner, one for its RDATA, and one for how often it is there.
fn reply(head: Vec<u8>, mut input: Input<'_>) -> Vec<u8> {
    let mut message = head;
    // Where names stand that may be pointed to.
    let mut places = vec![HEADER_LENGTH];
    while !input.is_empty() {
        let kind = input.octet();
        let (section, rtype) = (1 + usize::from(kind >> 6) % 3, TYPES[usize::from(kind & 63) % TYPES.len()]);
        let owner = name(&mut input, &places);
        let rdata = rdata(rtype, &mut input, &places);
        let times = 1usize << (input.octet() % 13);
        for _ in 0..times {
            let at = message.len();
            if !add(&mut message, section, &owner, rtype, &rdata) {
                return message;
            }
            if owner.len() > 2 && at < 0x4000 && places.len() < 256 {
                places.push(at);
            }
            let name_at = at + owner.len() + 10;
            if rdata.len() > 2
                && name_at < 0x4000
                && places.len() < 256
                && !matches!(rtype, rtype::A | rtype::AAAA)
            {
                places.push(name_at);
            }
        }
    }
    message
}

fn name(input: &mut Input<'_>, places: &[usize]) -> Vec<u8> {
    let choice = input.octet();
    let place = places[usize::from(choice >> 2) % places.len()];
    let pointer = (0xc000 | place as u16).to_be_bytes();
    match choice & 3 {
        0 | 1 => pointer.to_vec(),
        2 => [&[1, b'b'][..], &pointer].concat(),
        _ => long_name(input).as_wire().to_vec(),
    }
}

fn rdata(rtype: u16, input: &mut Input<'_>, places: &[usize]) -> Vec<u8> {
    match rtype {
        rtype::A => vec![192, 0, 2, 1],
        rtype::AAAA => vec![0x20; 16],
        rtype::SOA => [&[0, 0][..], &TTL_S.repeat(5)].concat(),
        rtype::OPT => Vec::new(),
        rtype::MX => [&[0, 1][..], &name(input, places)].concat(),
        rtype::SRV => [&[0; 6][..], &name(input, places)].concat(),
        rtype::RRSIG => [&[0, 5][..], &[0; 16], long_name(input).as_wire(), &[1]].concat(),
        _ => name(input, places),
    }
}

enum Way {
    Udp(usize),
    Stream(u64),
}

#[derive(Default)]
struct Wires {
    queries: Vec<(Way, Vec<u8>)>,
    answer: Vec<u8>,
}

impl Output for Wires {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        self.answer.resize(MESSAGE_OCTETS_MAX, 0);
        let room = if client.channel.is_udp() { ROOM_OCTETS_MAX.into() } else { MESSAGE_OCTETS_MAX };
        assert!(write(&mut self.answer[..room]) > 0, "an answer");
    }

    fn no_answer(&mut self, _: &Client) {}

    fn to_upstream(&mut self, _: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; server_core::answer::QUERY_OCTETS_MAX];
        let length = write(&mut octets);
        octets.truncate(length);
        self.queries.push((Way::Udp(socket), octets));
    }

    fn to_upstream_stream(&mut self, _: usize, token: u64, query: &[u8]) {
        self.queries.push((Way::Stream(token), query.to_vec()));
    }

    fn notice(&mut self, _: Notice) {}
}
