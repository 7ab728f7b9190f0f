//! A conversation with dns64d's state machine: clients, upstream servers and a clock, all played by the test.

use std::collections::VecDeque;
use std::sync::Arc;

use dns64::rule::Policy;
use dns64::wire::{Header, Message, Options, Question, append_option, option_code};
use server_core::client::{Channel, Client, StreamKind};
use server_core::machine::{Notice, Shared};
use server_core::settings::Upstream;
use server_core::{Machine, Output, Settings, Stats};

use crate::support::{lines, query, question, reply};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;

/// Room for all that a test remembers.
const CACHE_OCTETS: usize = 1 << 20;

/// What the machine sent.
#[derive(Default)]
pub struct Sent {
    pub answers: VecDeque<(Client, Vec<u8>)>,
    pub queries: VecDeque<ClientQuery>,
    pub unanswered: Vec<Client>,
    pub notices: Vec<Notice>,
}

/// A query to an upstream server.
#[derive(Clone, Debug)]
pub struct ClientQuery {
    pub upstream: usize,
    pub way: TryTransport,
    pub octets: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryTransport {
    Udp { socket: usize },
    Stream { token: u64 },
}

impl ClientQuery {
    pub fn id(&self) -> u16 {
        Header::parse(&self.octets).unwrap().id
    }

    pub fn is_stream(&self) -> bool {
        matches!(self.way, TryTransport::Stream { .. })
    }

    /// The question as it was spelled.
    pub fn question(&self) -> Question {
        Message::parse(&self.octets).unwrap().question()
    }

    /// Header and question alone, to begin a reply with.
    pub fn head(&self) -> Vec<u8> {
        let end = Message::parse(&self.octets).unwrap().question_end();
        let mut head = self.octets[..end].to_vec();
        (head[2], head[3], head[11]) = (0x81, 0x80, 0);
        head
    }

    /// The value of its COOKIE option.
    pub fn cookie(&self) -> Option<Vec<u8>> {
        option(&self.octets, option_code::COOKIE)
    }

    /// The server's reply with these records, and the question as it was spelled. Records of the name that
    /// was asked for have that spelling, too: most servers write a pointer to the question there.
    pub fn reply(&self, rcode: u8, records: &[&str]) -> Vec<u8> {
        let sent = self.question();
        let name = sent.name.to_string();
        let spelled = |line: &&str| {
            let mut words: Vec<&str> = line.split(' ').collect();
            if words.get(1).is_some_and(|owner| name.trim_end_matches('.').eq_ignore_ascii_case(owner)) {
                words[1] = name.trim_end_matches('.');
            }
            words.join(" ")
        };
        let records: Vec<String> = records.iter().map(spelled).collect();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let mut octets = reply(self.id(), &format!("{} TYPE{}", sent.name, sent.qtype), rcode, &records);
        octets[12..12 + sent.name.as_wire().len()].copy_from_slice(sent.name.as_wire());
        octets
    }

    /// A reply that did not fit.
    pub fn truncated(&self) -> Vec<u8> {
        let mut octets = self.reply(0, &[]);
        octets[2] |= (Header::TC >> 8) as u8;
        octets
    }
}

impl Output for Sent {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; if client.channel.is_udp() { 1232 } else { 65_535 }];
        let length = write(&mut octets);
        octets.truncate(length);
        if length > 0 {
            self.answers.push_back((*client, octets));
        }
    }

    fn no_answer(&mut self, client: &Client) {
        self.unanswered.push(*client);
    }

    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut octets = vec![0; server_core::answer::QUERY_OCTETS_MAX];
        let length = write(&mut octets);
        octets.truncate(length);
        self.queries.push_back(ClientQuery { upstream, way: TryTransport::Udp { socket }, octets });
    }

    fn to_upstream_stream(&mut self, upstream: usize, token: u64, query: &[u8]) {
        self.queries.push_back(ClientQuery {
            upstream,
            way: TryTransport::Stream { token },
            octets: query.to_vec(),
        });
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

pub fn udp_client() -> Client {
    Client {
        address: "[::1]:5300".parse().unwrap(),
        listener: 0,
        channel: Channel::Udp { socket: 0, local: None },
    }
}

pub fn stream_client(token: u64, kind: StreamKind) -> Client {
    Client { channel: Channel::Stream { token, kind }, ..udp_client() }
}

/// Settings with the prefix `2001:db8:64::/96`.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    policy(&mut settings).prefixes = vec!["2001:db8:64::/96".parse().unwrap()];
    settings
}

/// These settings with a change.
pub fn settings_with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = settings();
    change(&mut settings);
    settings
}

/// The rule of the first view.
pub fn policy(settings: &mut Settings) -> &mut Policy {
    settings.views[0].rule.as_mut().unwrap()
}

/// Settings with so many upstream servers for the same task.
pub fn settings_for(servers: usize) -> Settings {
    settings_with(|settings| {
        settings.upstreams = vec![Upstream::default(); servers];
        settings.groups = vec![(0..servers).collect()];
    })
}

pub struct Talk {
    pub machine: Machine,
    pub shared: Shared,
    pub sent: Sent,
    pub now_ns: u64,
}

impl Talk {
    /// With a machine that keeps nothing.
    pub fn new(settings: Settings) -> Self {
        Self::seeded(settings, 0, [7; 32])
    }

    /// With a machine that has a cache.
    pub fn with_cache(settings: Settings) -> Self {
        Self::seeded(settings, CACHE_OCTETS, [7; 32])
    }

    pub fn seeded(settings: Settings, cache_octets: usize, seed: [u8; 32]) -> Self {
        let shared = Shared::new(&settings, cache_octets, seed);
        let machine = Machine::new(Arc::new(settings), shared.clone(), seed);
        Self { machine, shared, sent: Sent::default(), now_ns: 1 }
    }

    /// Lets time pass; the machine is woken whenever it asked for it.
    pub fn wait(&mut self, duration_ns: u64) {
        let end_ns = self.now_ns + duration_ns;
        while let Some(due_ns) = self.machine.poll_timeout().filter(|&due_ns| due_ns <= end_ns) {
            self.now_ns = self.now_ns.max(due_ns);
            self.machine.handle_timeout(self.now_ns, &mut self.sent);
        }
        self.now_ns = end_ns;
    }

    pub fn client_sends(&mut self, octets: &[u8]) {
        self.sends(udp_client(), octets);
    }

    pub fn sends(&mut self, client: Client, octets: &[u8]) {
        self.machine.handle_client(self.now_ns, client, octets, &mut self.sent);
    }

    /// The client asks, with ID 0x1234 and without EDNS.
    pub fn client_asks(&mut self, words: &str) {
        self.client_sends(&query(0x1234, words, None));
    }

    /// The next query to an upstream server, which must ask for this.
    #[track_caller]
    pub fn asked(&mut self, words: &str) -> ClientQuery {
        let asked =
            self.sent.queries.pop_front().unwrap_or_else(|| panic!("nothing asked, {words} expected"));
        let message = Message::parse(&asked.octets).unwrap();
        assert_eq!(message.question(), question(words), "{words}");
        assert_eq!(message.header.flags & !(Header::RD | Header::CD | Header::AD), 0);
        assert!(message.edns().unwrap().is_some_and(|edns| edns.payload_octets == 1232));
        asked
    }

    /// The server answers a query with these records.
    pub fn replies(&mut self, asked: &ClientQuery, rcode: u8, records: &[&str]) {
        self.server_sends(asked, &asked.reply(rcode, records));
    }

    /// The next query must ask for this; the server answers it with these records.
    #[track_caller]
    pub fn asked_and_told(&mut self, words: &str, rcode: u8, records: &[&str]) -> ClientQuery {
        let asked = self.asked(words);
        self.replies(&asked, rcode, records);
        asked
    }

    /// The server sends these octets where the answer to a query belongs.
    pub fn server_sends(&mut self, asked: &ClientQuery, octets: &[u8]) {
        let (upstream, now_ns) = (asked.upstream, self.now_ns);
        match asked.way {
            TryTransport::Udp { socket } => {
                self.machine.handle_upstream(now_ns, upstream, socket, octets, &mut self.sent);
            }
            TryTransport::Stream { token } => {
                self.machine.handle_upstream_stream(now_ns, token, Some(octets), &mut self.sent);
            }
        }
    }

    /// The stream ends before the answer to a query has come.
    #[track_caller]
    pub fn stream_ends(&mut self, asked: &ClientQuery) {
        let TryTransport::Stream { token } = asked.way else { panic!("{asked:?}") };
        self.machine.handle_upstream_stream(self.now_ns, token, None, &mut self.sent);
    }

    /// Somebody says that nothing listens where a query went.
    #[track_caller]
    pub fn unreachable(&mut self, asked: &ClientQuery) {
        assert!(!asked.is_stream());
        self.machine.handle_upstream_unreachable(self.now_ns, asked.upstream);
    }

    /// The octets of the next answer to a client.
    #[track_caller]
    pub fn answer(&mut self) -> Vec<u8> {
        self.sent.answers.pop_front().expect("an answer").1
    }

    /// The next answer must be to the question asked by [`Talk::client_asks`], with this RCODE and these
    /// records.
    #[track_caller]
    pub fn answered(&mut self, words: &str, rcode: u8, records: &[&str]) {
        let octets = self.answer();
        let message = Message::parse(&octets).unwrap();
        assert_eq!(message.header.id, 0x1234);
        assert_eq!(message.question(), question(words));
        assert_eq!(
            message.question().name.as_wire(),
            question(words).name.as_wire(),
            "the client's spelling"
        );
        assert_eq!(lines(&octets), records);
        assert_eq!(message.header.flags, Header::QR | Header::RD | Header::RA | u16::from(rcode));
    }

    /// The server keeps the spelling of a name, and so tells that it does.
    pub fn keeps_spellings(&mut self) {
        let words = "spelling.test A";
        self.client_asks(words);
        self.asked_and_told(words, 0, &[]);
        self.answered(words, 0, &[]);
    }

    /// Nothing was sent, and nothing is in flight.
    #[track_caller]
    pub fn over(&mut self) {
        self.silent();
        assert_eq!((self.machine.in_flight(), self.machine.waiting()), (0, 0));
        assert_eq!(self.machine.poll_timeout(), None);
        let stats = *self.machine.stats();
        let Stats { accepted, answered, failed, evicted, .. } = stats;
        assert_eq!(accepted, answered + failed + evicted, "every query ends once");
        let Stats {
            client_messages, dropped, strangers_dropped, refused, rate_slipped, rate_dropped, ..
        } = stats;
        let ended = dropped + strangers_dropped + refused + rate_slipped + rate_dropped + accepted;
        assert_eq!(client_messages, ended, "every message ends once");
    }

    /// Nothing was sent.
    #[track_caller]
    pub fn silent(&self) {
        assert!(self.sent.queries.is_empty(), "{:?}", self.sent.queries);
        assert!(self.sent.answers.is_empty(), "{:?}", self.sent.answers);
    }
}

/// The codes of the extended errors of a message.
pub fn extended_errors(octets: &[u8]) -> Vec<u16> {
    let message = Message::parse(octets).unwrap();
    let options = Options::of(&message);
    let errors = options.iter().filter(|(code, _)| *code == option_code::EXTENDED_ERROR);
    errors.map(|(_, value)| u16::from_be_bytes([value[0], value[1]])).collect()
}

/// A query with ID 0x1234, RD and these EDNS options.
pub fn query_with_options(words: &str, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut octets = query(0x1234, words, Some((1232, false)));
    octets.resize(1232, 0);
    let mut length = Message::parse(&octets).unwrap().question_end() + dns64::rewrite::OPT_LENGTH;
    for (code, value) in options {
        length = append_option(&mut octets, length, *code, value);
    }
    octets.truncate(length);
    octets
}

/// The value of an EDNS option of a message.
pub fn option(octets: &[u8], code: u16) -> Option<Vec<u8>> {
    Options::of(&Message::parse(octets).unwrap()).find(code).map(<[u8]>::to_vec)
}
