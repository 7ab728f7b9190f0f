//! Both halves of the crate against each other, against clients and servers that misbehave, and against other
//! programs.

#![allow(clippy::unwrap_used)]

mod attack;
mod attack_memory;
mod attack_protocols;
mod both_ways;
mod common;
mod hostile_clients;
mod hostile_upstreams;
mod http3;
mod https;
mod programs;
mod quic;
mod reload;
