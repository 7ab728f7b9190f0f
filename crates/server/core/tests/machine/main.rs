//! dns64d's state machine in scripted conversations, by subject.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../../../fuzz/src/cost.rs"]
mod cost;
#[path = "../../../../../fuzz/src/input.rs"]
#[allow(dead_code, reason = "other fuzz targets use more of it")]
mod input;
#[path = "../../../../dns64/tests/support/mod.rs"]
mod support;
mod talk;

mod ahead;
mod any;
mod attack;
mod attack_networks;
mod caching;
mod clients;
mod coalescing;
mod cookies;
mod failures;
mod form;
mod guessing;
mod hostile;
mod limits;
mod matching;
mod rule;
mod servers;
mod stale;
mod tries;
mod views;

use server_core::Settings;
use talk::{ClientQuery, Talk};

const AAAA: &str = "www.example.com AAAA";
const A: &str = "www.example.com A";
const SOA: &str = "ns example.com 300 SOA 30";
const A_RECORD: &str = "an www.example.com 300 A 192.0.2.1";
const AAAA_RECORD: &str = "an www.example.com 300 AAAA 2001:db8::1";
const SYNTHESIZED: &str = "an www.example.com 30 AAAA 2001:db8:64::c000:201";

/// A client has asked for A, and this is the query upstream.
fn one_in_flight(settings: Settings) -> (Talk, ClientQuery) {
    let mut talk = Talk::new(settings);
    talk.client_asks(A);
    let asked = talk.asked(A);
    (talk, asked)
}
