//! Messages that are made to cost much: none costs dns64d's machine more than twenty times a plain one of its
//! size, counted in steps ([`dns64::steps`]), neither when it comes from a client or an upstream server nor
//! out of the cache.
//!
//! An input describes a question and the records of the replies to it: long names that differ where a
//! comparison comes last, pointers to them, many times over.

use std::sync::Arc;

use dns64::Prefix;
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
    let records = input;
    let over_udp = choice & 2 == 0;
    let cost = cost(&question, over_udp, |head| reply(head, records));
    let plain = plain_cost(&question, over_udp, cost.octets);
    let [first, again] = cost.replies;
    let miss_max = TIMES_MAX * first.max(1) * plain.miss;
    let again_max = match again {
        0 => TIMES_MAX * first.max(1) * plain.hit,
        replies => TIMES_MAX * replies * plain.miss,
    };
    assert!(cost.miss <= miss_max && cost.hit <= again_max, "{cost:?}, plain {plain:?}");
}

/// What replies cost that have as many addresses of an ordinary name as so many octets hold.
pub fn plain_cost(asked: &Question, over_udp: bool, octets: usize) -> Cost {
    let question = Question { name: Name::from_text("www.example.com").unwrap_or(Name::ROOT), ..*asked };
    cost(&question, over_udp, |mut head| {
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
pub fn cost(question: &Question, over_udp: bool, reply: impl Fn(Vec<u8>) -> Vec<u8>) -> Cost {
    let mut settings = Settings::default();
    let prefix: Prefix = "2001:db8:64::/96".parse().expect("a prefix");
    settings.views[0].rule = Some(Policy { prefixes: vec![prefix], ..Policy::default() });
    let shared = Shared::new(&settings, CACHE_OCTETS, [7; 32]);
    let mut machine = Machine::new(Arc::new(settings), shared, [7; 32]);
    let mut wires = Wires::default();
    let channel = match over_udp {
        true => Channel::Udp { socket: 0, local: None },
        false => Channel::Stream { token: 1, kind: StreamKind::Tcp },
    };
    let client = Client { address: ([127, 0, 0, 1], 1024).into(), listener: 0, channel };
    let query = query(question);
    let mut octets = 0;
    let [(first, miss), (again, hit)] = [(); 2].map(|()| {
        let mut replies = 0;
        let mut steps = steps::of(|| machine.handle_client(1, client, &query, &mut wires));
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

fn query(question: &Question) -> Vec<u8> {
    let mut octets = vec![0; 512];
    let length = Writer::new(&mut octets, 7, Header::RD, question).map_or(0, Writer::finish);
    octets.truncate(length);
    octets
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
        let room = if client.channel.is_udp() { 1232 } else { MESSAGE_OCTETS_MAX };
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
