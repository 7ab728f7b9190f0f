//! The real dns64d between a client and upstream servers that are played by the test.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod client;
pub mod server;
pub mod upstream;

#[path = "../../crates/dns64/tests/support/mod.rs"]
pub mod words;

use std::io::{Read, Write};
use std::time::Duration;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Reads a message with its length before it (RFC 1035 4.2.2); `None` at the end of the stream.
pub fn read_frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// Writes a message with its length before it.
pub fn write_frame(stream: &mut impl Write, message: &[u8]) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], message].concat()).unwrap();
}
