//! Captures of DNS traffic: the queries of a pcap or pcapng file with their times and clients, and a compact
//! file of them ([`compact`]) that is read from disk while it is replayed.
//!
//! The crate is pure: the caller opens the files. No input makes it panic or hang, and memory is bounded
//! whatever a file holds.
#![forbid(unsafe_code)]

pub mod compact;
mod convert;
mod left_out;
mod order;
mod packets;
mod queries;

pub use convert::{ConvertError, Converted, WINDOW_QUERIES, convert};
pub use left_out::{LeftOut, Reason};
pub use packets::{BLOCK_OCTETS_MAX, Packet, Packets, Stopped, is_capture};
pub use queries::{DNS_PORT, Query, queries_of};
