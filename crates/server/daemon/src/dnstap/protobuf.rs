//! One record in the encoding of Protocol Buffers, with its length before it (a data frame of Frame Streams).

use std::net::{IpAddr, SocketAddr};

use super::Event;

/// Wire types of Protocol Buffers.
const VARINT: u64 = 0;
const OCTETS: u64 = 2;
const FIXED_32: u64 = 5;
/// `Dnstap.Type`.
const MESSAGE: u64 = 1;

const VERSION: &str = concat!("dns64d ", env!("CARGO_PKG_VERSION"));
const NS_PER_S: u64 = 1_000_000_000;

/// The frame of an event: `Dnstap` with one `Message`, after its length in network order.
pub(super) fn frame(identity: &str, event: &Event<'_>) -> Vec<u8> {
    let message = message(event);
    let mut out = Vec::with_capacity(message.len() + identity.len() + VERSION.len() + 32);
    out.extend_from_slice(&[0; 4]);
    if !identity.is_empty() {
        octets(&mut out, 1, identity.as_bytes());
    }
    octets(&mut out, 2, VERSION.as_bytes());
    octets(&mut out, 14, &message);
    number(&mut out, 15, MESSAGE);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn message(event: &Event<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.message.len() + 96);
    number(&mut out, 1, event.kind as u64);
    if let Some(address) = event.query_address.or(event.response_address) {
        number(&mut out, 2, if address.ip().to_canonical().is_ipv4() { 1 } else { 2 });
    }
    number(&mut out, 3, event.protocol as u64);
    for (field, address) in [(4, event.query_address), (5, event.response_address)] {
        match address.map(|address| address.ip().to_canonical()) {
            Some(IpAddr::V4(ip)) => octets(&mut out, field, &ip.octets()),
            Some(IpAddr::V6(ip)) => octets(&mut out, field, &ip.octets()),
            None => {}
        }
    }
    for (field, port) in [(6, port(event.query_address)), (7, port(event.response_address))] {
        if let Some(port) = port {
            number(&mut out, field, port);
        }
    }
    time(&mut out, 8, event.query_time_ns);
    if event.kind.is_query() {
        octets(&mut out, 10, event.message);
    } else {
        time(&mut out, 12, event.response_time_ns);
        octets(&mut out, 14, event.message);
    }
    out
}

fn port(address: Option<SocketAddr>) -> Option<u64> {
    address.map(|address| address.port().into())
}

/// Seconds under `field` and nanoseconds under the next.
fn time(out: &mut Vec<u8>, field: u64, at_ns: Option<u64>) {
    if let Some(at_ns) = at_ns {
        number(out, field, at_ns / NS_PER_S);
        varint(out, (field + 1) << 3 | FIXED_32);
        out.extend_from_slice(&((at_ns % NS_PER_S) as u32).to_le_bytes());
    }
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3 | VARINT);
    varint(out, value);
}

fn octets(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | OCTETS);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_protocol_buffers_have_them() {
        // The examples of the encoding's description: 1, 150, and the text "testing" in field 2.
        let mut out = Vec::new();
        number(&mut out, 1, 1);
        number(&mut out, 1, 150);
        octets(&mut out, 2, b"testing");
        assert_eq!(out, b"\x08\x01\x08\x96\x01\x12\x07testing");
        out.clear();
        varint(&mut out, u64::MAX);
        assert_eq!(out.len(), 10);
        out.clear();
        time(&mut out, 8, Some(1_609_664_398_355_231_260));
        assert_eq!(out[..8], [0x40, 0x8e, 0x8f, 0xc6, 0xff, 0x05, 0x4d, 355_231_260u32.to_le_bytes()[0]]);
    }
}
