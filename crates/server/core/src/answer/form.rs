//! The form that a client takes an answer in: how long it may be, and what its OPT record says.

use dns64::rewrite::{OPT_LENGTH, append_edns};
use dns64::wire::{Edns, Message};
use dns64::wire::{Options, append_option, option_code};

use crate::client::{Client, Query};
use crate::ede;
use crate::settings::Settings;

/// The UDP answer that every client takes (RFC 1035 4.2.1).
const PLAIN_UDP_OCTETS: u16 = 512;

/// Code and length of an EDNS option.
const OPTION_HEAD_OCTETS: usize = 4;

/// A client cookie and a server cookie (RFC 9018 4).
const COOKIE_OCTETS: usize = 24;

/// The value of the option edns-tcp-keepalive (RFC 7828 3.1).
const KEEPALIVE_OCTETS: usize = 2;

/// Encrypted answers are padded to a multiple of this (RFC 8467 4.1).
const PADDING_BLOCK_OCTETS: usize = 468;

/// Extended errors of ours in one answer at most.
const NOTES_MAX: usize = 3;

/// Extended errors of an upstream server that are passed on at most.
const THEIRS_MAX: usize = 4;

/// The extended errors of an answer (RFC 8914).
#[derive(Clone, Copy, Default)]
pub struct ExtendedErrors<'n> {
    ours: [Option<u16>; NOTES_MAX],
    theirs: Option<Options<'n>>,
    extended_rcode: u8,
}

impl<'n> ExtendedErrors<'n> {
    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// Those of an upstream server's reply.
    pub fn of(reply: &Message<'n>) -> Self {
        Self { theirs: Some(Options::of(reply)), ..Self::default() }
    }

    /// Adds one of ours.
    pub fn say(&mut self, code: u16) {
        if let Some(free) = self.ours.iter_mut().find(|note| note.is_none()) {
            *free = Some(code);
        }
    }

    /// The upper bits of the RCODE (RFC 6891 6.1.3).
    pub fn set_extended_rcode(&mut self, extended_rcode: u8) {
        self.extended_rcode = extended_rcode;
    }
}

/// A reply that is longer than so many answers for the client's datagrams is not read: what an answer leaves
/// out of a reply, signatures and the records beside the answer, is far less.
const ANSWERS_IN_A_REPLY: usize = 4;

/// The longest answer that a client takes, in octets.
fn limit_octets(settings: &Settings, client: &Client, query: &Query) -> usize {
    if !client.channel.is_udp() {
        return u16::MAX.into();
    }
    let theirs = query.edns.map_or(0, |edns| edns.payload_octets);
    // A smaller announcement than 512 counts as 512 (RFC 6891 6.2.3).
    theirs.max(PLAIN_UDP_OCTETS).min(settings.udp_payload_octets).into()
}

/// The longest reply, in octets, that an answer to a query is made from. A client that asked by a datagram is
/// sent to a stream for what is longer, before the reply is copied or read: else a datagram of 40 octets
/// would cost the work of a reply of 64 KiB.
pub fn reply_octets_max(settings: &Settings, client: &Client, query: &Query) -> usize {
    let limit = limit_octets(settings, client, query);
    if client.channel.is_udp() { ANSWERS_IN_A_REPLY * limit } else { limit }
}

/// The form of the answers to one query.
#[derive(Clone, Copy)]
pub struct Form {
    limit_octets: usize,
    edns: Option<Edns>,
    cookie: Option<[u8; COOKIE_OCTETS]>,
    keepalive_100ms: Option<u16>,
    pads: bool,
    explains: bool,
}

impl Form {
    /// The form for a query; `cookie` goes into its answer.
    pub fn of(
        settings: &Settings,
        client: &Client,
        query: &Query,
        cookie: Option<[u8; COOKIE_OCTETS]>,
    ) -> Self {
        let ours = settings.udp_payload_octets;
        let theirs = query.edns.unwrap_or_default();
        let channel = client.channel;
        let edns = query.edns.map(|_| Edns {
            payload_octets: ours,
            extended_rcode: 0,
            version: 0,
            dnssec_ok: query.asked.dnssec_ok,
        });
        let tells_idle_time = theirs.keepalive && channel.has_idle_time();
        Self {
            limit_octets: limit_octets(settings, client, query),
            edns,
            cookie,
            keepalive_100ms: tells_idle_time.then_some(settings.keepalive_100ms),
            pads: theirs.padding && channel.is_encrypted(),
            explains: settings.extended_errors,
        }
    }

    /// Whether the client sent an OPT record.
    pub fn has_edns(&self) -> bool {
        self.edns.is_some()
    }

    /// The part of a buffer that an answer may fill before [`Form::finish`] adds the OPT record.
    pub fn room<'b>(&self, out: &'b mut [u8]) -> &'b mut [u8] {
        let room = self.limit_octets.min(out.len()).saturating_sub(self.reserved_octets());
        &mut out[..room]
    }

    /// Adds the OPT record to an answer that fits [`Form::room`]. Extended errors and padding are left out
    /// where there is no room for them.
    pub fn finish(&self, out: &mut [u8], octets: usize, notes: &ExtendedErrors<'_>) -> usize {
        let Some(edns) = &self.edns else { return octets };
        if octets == 0 {
            return 0;
        }
        let limit = self.limit_octets.min(out.len());
        let out = &mut out[..limit];
        let edns = Edns { extended_rcode: notes.extended_rcode, ..*edns };
        let mut octets = append_edns(out, octets, &edns);
        if let Some(cookie) = &self.cookie {
            octets = append_option(out, octets, option_code::COOKIE, cookie);
        }
        if let Some(idle) = self.keepalive_100ms {
            octets = append_option(out, octets, option_code::KEEPALIVE, &idle.to_be_bytes());
        }
        if self.explains {
            octets = explain(out, octets, notes);
        }
        if self.pads { pad(out, octets) } else { octets }
    }

    fn reserved_octets(&self) -> usize {
        let option = |value: Option<usize>| value.map_or(0, |octets| OPTION_HEAD_OCTETS + octets);
        match &self.edns {
            Some(_) => {
                OPT_LENGTH
                    + option(self.cookie.map(|cookie| cookie.len()))
                    + option(self.keepalive_100ms.map(|_| KEEPALIVE_OCTETS))
            }
            None => 0,
        }
    }
}

fn explain(out: &mut [u8], mut octets: usize, notes: &ExtendedErrors<'_>) -> usize {
    for code in notes.ours.iter().flatten() {
        octets = ede::append(out, octets, *code, "");
    }
    let theirs = notes.theirs.iter().flat_map(Options::iter);
    let errors = theirs.filter(|&(code, value)| code == option_code::EXTENDED_ERROR && value.len() >= 2);
    for (code, value) in errors.take(THEIRS_MAX) {
        octets = append_option(out, octets, code, value);
    }
    octets
}

/// Fills an answer up to the next multiple of the block (RFC 8467 4.1).
fn pad(out: &mut [u8], octets: usize) -> usize {
    const ZEROS: [u8; PADDING_BLOCK_OCTETS] = [0; PADDING_BLOCK_OCTETS];
    let wanted = (octets + OPTION_HEAD_OCTETS).next_multiple_of(PADDING_BLOCK_OCTETS);
    let zeros = wanted - octets - OPTION_HEAD_OCTETS;
    append_option(out, octets, option_code::PADDING, &ZEROS[..zeros])
}
