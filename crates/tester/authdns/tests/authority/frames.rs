//! Queries of all kinds, and the frames that carry them.

use proptest::prelude::*;
use sys::frame::Template;

pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Clients and servers of either family.
pub const CLIENTS: [&str; 2] = ["198.18.0.1:4096", "[2001:2::1]:4096"];
pub const SERVERS: [&str; 2] = ["198.18.0.2:53", "[2001:2::2]:53"];

/// A frame from one end to the other, with these VLAN tags.
fn frame(macs: [[u8; 6]; 2], ends: [&str; 2], tags: &[[u8; 4]], payload: &[u8]) -> Vec<u8> {
    let [from, to] = ends.map(|end| end.parse().unwrap());
    let template = Template::new(macs[0], macs[1], from, to).unwrap();
    let mut frame = vec![0; template.payload_offset() + payload.len()];
    frame[template.payload_offset()..].copy_from_slice(payload);
    template.complete(&mut frame, payload.len());
    frame.splice(12..12, tags.concat());
    frame
}

/// A query as it comes to the server, over IPv6 if `family` is 1.
pub fn query_frame(family: usize, tags: &[[u8; 4]], query: &[u8]) -> Vec<u8> {
    frame([CLIENT_MAC, SERVER_MAC], [CLIENTS[family], SERVERS[family]], tags, query)
}

/// No tag, one of 802.1Q, or one of 802.1ad before it.
pub fn tags() -> impl Strategy<Value = Vec<[u8; 4]>> {
    prop::sample::select(vec![
        vec![],
        vec![[0x81, 0, 0x20, 0x64]],
        vec![[0x88, 0xa8, 0, 7], [0x81, 0, 0x0f, 0xfe]],
    ])
}

/// What a query is made of.
#[derive(Clone, Debug)]
pub struct QueryFrame {
    pub id: u16,
    pub flags: u16,
    pub label: Vec<u8>,
    pub qtype: u16,
    pub qclass: u16,
    pub upper_case: u64,
    pub opt: Option<Vec<u8>>,
    pub damage: Option<(prop::sample::Index, u8)>,
}

impl Default for QueryFrame {
    fn default() -> Self {
        let label = b"010-000-000-007".to_vec();
        Self { id: 0, flags: 0, label, qtype: 28, qclass: 1, upper_case: 0, opt: None, damage: None }
    }
}

impl QueryFrame {
    /// The message, for a name below `suffix`.
    pub fn message(&self, suffix: &str) -> Vec<u8> {
        let mut query = self.id.to_be_bytes().to_vec();
        query.extend(self.flags.to_be_bytes());
        query.extend([0, 1, 0, 0, 0, 0, 0, u8::from(self.opt.is_some())]);
        let mut name = vec![self.label.len() as u8];
        name.extend(&self.label);
        for label in suffix.split('.') {
            name.push(label.len() as u8);
            name.extend(label.bytes());
        }
        name.push(0);
        for (index, octet) in name.iter_mut().enumerate() {
            if self.upper_case >> (index % 64) & 1 == 1 && octet.is_ascii_lowercase() {
                octet.make_ascii_uppercase();
            }
        }
        query.extend(name);
        query.extend(self.qtype.to_be_bytes());
        query.extend(self.qclass.to_be_bytes());
        query.extend(self.opt.iter().flatten());
        if let Some((at, octet)) = &self.damage {
            let at = at.index(query.len());
            query[at] = *octet;
        }
        query
    }
}

/// Queries of which most are usual.
pub fn asked() -> impl Strategy<Value = QueryFrame> {
    let usual_label =
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("{a:03}-{b:03}-{c:03}-{d:03}").into_bytes());
    let odd_label = prop::sample::select(vec![
        "000-000-000-256",
        "999-000-000-000",
        "10-0-0-1",
        "ns",
        "www",
        "000-000-00a-000",
        "000_000-000-000",
    ]);
    let label = prop_oneof![8 => usual_label, 1 => odd_label.prop_map(|label| label.as_bytes().to_vec())];
    let flags = prop_oneof![4 => prop::sample::select(vec![0u16, 0x0100, 0x0120]), 1 => any::<u16>()];
    let qtype = prop::sample::select(vec![1u16, 1, 1, 28, 28, 28, 28, 255, 2, 6, 16, 41]);
    let qclass = prop_oneof![9 => Just(1u16), 1 => any::<u16>()];
    let case = prop_oneof![1 => Just(0u64), 1 => any::<u64>()];
    let damage = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (any::<u16>(), flags, label, qtype, qclass, case, opt(), damage).prop_map(
        |(id, flags, label, qtype, qclass, upper_case, opt, damage)| QueryFrame {
            id,
            flags,
            label,
            qtype,
            qclass,
            upper_case,
            opt,
            damage,
        },
    )
}

/// No OPT record, a plain one, one with options or of another version.
fn opt() -> impl Strategy<Value = Option<Vec<u8>>> {
    let plain = (any::<u16>(), any::<bool>(), any::<[u8; 3]>(), any::<bool>()).prop_map(
        |(payload, dnssec_ok, odd, is_odd)| {
            let [high, low] = payload.to_be_bytes();
            let [rcode, version, flags] = if is_odd { odd } else { [0; 3] };
            Some(vec![0, 0, 41, high, low, rcode, version, u8::from(dnssec_ok) << 7, flags, 0, 0])
        },
    );
    let cookie = Just(Some([&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8][..], &[7; 8]].concat()));
    prop_oneof![3 => Just(None), 4 => plain, 1 => cookie]
}
