//! The observers of messages: dnstap, and the log of queries.

use std::net::SocketAddr;
use std::sync::Arc;

use dns64::wire::Message;
use server_core::Settings;
use server_core::client::{Channel, Client, StreamKind};
use server_core::machine::Notice;

use crate::config::Level;
use crate::dnstap::{self, Event, Kind, Tap};
use crate::log::Log;

/// The log and the dnstap receiver, which all threads report to.
#[derive(Clone, Debug)]
pub struct Services {
    /// The log of the program, on stderr.
    pub log: Log,
    /// Where messages are recorded.
    pub tap: Option<Tap>,
}

pub(super) struct Observer {
    services: Services,
    /// The addresses listened on, by the listeners' numbers.
    pub listeners: Vec<SocketAddr>,
    /// Who may ask. Nothing is spent on the messages of others.
    pub settings: Arc<Settings>,
}

impl Observer {
    pub fn new(services: Services) -> Self {
        Self { services, listeners: Vec::new(), settings: Arc::default() }
    }

    pub fn client_query(&self, client: &Client, message: &[u8]) {
        if self.services.log.wants_queries() {
            self.log_query(client, message);
        }
        self.record_client(client, Kind::ClientQuery, message);
    }

    pub fn client_response(&self, client: &Client, message: &[u8]) {
        self.record_client(client, Kind::ClientResponse, message);
    }

    pub fn upstream(&self, address: Option<&SocketAddr>, stream: bool, kind: Kind, message: &[u8]) {
        let Some(tap) = self.services.tap.as_ref().filter(|tap| tap.upstreams()) else { return };
        let now_ns = sys::clock::realtime_ns();
        let answered = kind == Kind::ForwarderResponse;
        tap.record(&Event {
            kind,
            protocol: if stream { dnstap::Protocol::Tcp } else { dnstap::Protocol::Udp },
            query_address: None,
            response_address: address.copied(),
            query_time_ns: (!answered).then_some(now_ns),
            response_time_ns: answered.then_some(now_ns),
            message,
        });
    }

    /// Logs what a machine noticed; `upstreams` are the addresses of its servers.
    pub fn notice(&self, notice: Notice, upstreams: &[SocketAddr]) {
        let (number, level, kind, words) = match notice {
            Notice::UpstreamDown(number) => {
                (number, Level::Warning, "upstream-down", "an upstream server does not answer")
            }
            Notice::UpstreamUp(number) => {
                (number, Level::Info, "upstream-up", "an upstream server answers again")
            }
            Notice::Loop(number) => {
                let words = "an upstream server forwards to dns64d (a loop); the server is left out until the next reload";
                (number, Level::Error, "loop", words)
            }
            Notice::Guessing(number) => {
                let words = "somebody guesses answers of an upstream server; for a minute, the server is asked over TCP only";
                (number, Level::Warning, "guessing", words)
            }
            Notice::SpellingChanged(number) => {
                let words = "an upstream server does not repeat the letter case of names; its queries have random case no longer";
                (number, Level::Info, "spelling", words)
            }
            Notice::Full => {
                let words = "too many queries are in flight; the oldest are given up (limits.in_flight)";
                return self.services.log.event(Level::Warning, "full", words, &[]);
            }
        };
        let address = upstreams.get(number).map_or_else(String::new, ToString::to_string);
        self.services.log.event(level, kind, words, &[("upstream", &address)]);
    }

    fn log_query(&self, client: &Client, message: &[u8]) {
        if !self.settings.allows(client.address.ip()) {
            return;
        }
        let Ok(message) = Message::parse(message) else { return };
        let (name, qtype) = (message.question().name, message.qtype);
        self.services.log.query(&[("client", &client.address), ("name", &name), ("type", &qtype)]);
    }

    fn record_client(&self, client: &Client, kind: Kind, message: &[u8]) {
        let Some(tap) = self.services.tap.as_ref().filter(|tap| tap.clients()) else { return };
        if !self.settings.allows(client.address.ip()) {
            return;
        }
        let now_ns = sys::clock::realtime_ns();
        let answered = kind == Kind::ClientResponse;
        tap.record(&Event {
            kind,
            protocol: match client.channel {
                Channel::Udp { .. } | Channel::Frame { .. } => dnstap::Protocol::Udp,
                Channel::Stream { kind: StreamKind::Tcp, .. } => dnstap::Protocol::Tcp,
                Channel::Stream { kind: StreamKind::Tls, .. } => dnstap::Protocol::Tls,
                Channel::Stream { kind: StreamKind::Https, .. } => dnstap::Protocol::Https,
                Channel::Stream { kind: StreamKind::Quic, .. } => dnstap::Protocol::Quic,
            },
            query_address: Some(client.address),
            response_address: self.listeners.get(client.listener).copied(),
            query_time_ns: (!answered).then_some(now_ns),
            response_time_ns: answered.then_some(now_ns),
            message,
        });
    }
}
