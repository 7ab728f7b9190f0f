//! The servers around a measurement: embedded ones, real peers, and the machine itself.
//!
//! [`child`] keeps a server process from start to end, [`peers`] knows how each server is configured,
//! [`environment`] describes the machine and finds what would spoil a measurement, [`observe`] counts what
//! happens on it meanwhile, [`network`] joins Tester, DUT and AuthDNS on one machine.
#![forbid(unsafe_code)]

pub mod child;
pub mod environment;
pub mod network;
pub mod observe;
pub mod peers;
pub mod scratch;
