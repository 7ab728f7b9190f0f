//! The configuration files and arguments of every server, byte for byte, for a few settings: `expected.txt`.
//!
//! A difference is written to the target directory; a change that is meant replaces `expected.txt` with that
//! file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use dns64::Prefix;
use dns64::wire::Name;
use lab::peers::authoritative::{self, ZoneSettings};
use lab::peers::{self, PeerSettings, Streams, Transport};

const EXPECTED: &str = include_str!("expected.txt");
const CONFIGURATION: &str = "/scratch/configuration";

fn peer_settings(listen: &str, prefix: &str, cores: usize) -> PeerSettings {
    PeerSettings {
        listen: listen.parse().unwrap(),
        auth: "127.0.0.1:5300".parse().unwrap(),
        prefix: prefix.parse::<Prefix>().unwrap(),
        suffix: Name::from_text("dns64perf.test").unwrap(),
        cores: (0..cores).collect(),
        directory: "/scratch".into(),
        receive_buffer_octets: 1 << 20,
        send_buffer_octets: 1 << 19,
        devices: vec!["tester0".into(), "auth0".into()],
        namespace: None,
        streams: None,
    }
}

fn zone_settings(listen: &[&str], workers: usize) -> ZoneSettings {
    ZoneSettings {
        listen: listen.iter().map(|listen| listen.parse::<SocketAddr>().unwrap()).collect(),
        zone: "dns64perf.test".into(),
        zone_file: "/zones/dns64perf.test.zone".into(),
        workers,
        directory: "/scratch".into(),
        device: Some("dut0".into()),
        buffer_octets: 1 << 22,
        rule: vec!["--names".into(), "10.0.0.0/16".into()],
        user: ("nobody".into(), "nogroup".into()),
    }
}

/// A heading, the files and the arguments, each of these on a line.
fn entry(text: &mut String, heading: &str, files: &[(&str, String)], arguments: &[std::ffi::OsString]) {
    writeln!(text, "==== {heading}").unwrap();
    for (name, contents) in files {
        writeln!(text, "---- {name}\n{contents}<end of file>").unwrap();
    }
    for argument in arguments {
        writeln!(text, "argument {}", argument.to_str().unwrap()).unwrap();
    }
}

/// What servers are told of each transport by connections.
fn rendered_streams(text: &mut String) {
    for transport in [Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq, Transport::Doh3] {
        let listen = if transport == Transport::Tcp { "[::1]:5321" } else { "[::1]:8853" };
        let streams = Streams { transport, listen: listen.parse().unwrap(), connections: 100 };
        let settings =
            PeerSettings { streams: Some(streams), ..peer_settings("[::1]:5321", "64:ff9b::/96", 2) };
        for peer in peers::all() {
            if let Some(why) = peer.obstacle(&settings) {
                writeln!(text, "obstacle to {} over {}: {why}", peer.name, transport.name()).unwrap();
                continue;
            }
            let heading = format!("{} over {}", peer.name, transport.name());
            entry(text, &heading, &peer.files(&settings), &[]);
        }
    }
}

fn rendered() -> String {
    let mut text = String::new();
    for (listen, prefix, cores) in [
        ("[::1]:5321", "2001:db8:64::/96", 1),
        ("192.0.2.1:53", "2001:db8::/32", 4),
        ("[::]:53", "64:ff9b::/96", 0),
    ] {
        let mut settings = peer_settings(listen, prefix, cores);
        for peer in peers::all() {
            let heading = format!("{} at {listen} for {prefix} on {cores}", peer.name);
            let arguments = peer.arguments(&settings, Path::new(CONFIGURATION));
            entry(&mut text, &heading, &peer.files(&settings), &arguments);
            writeln!(text, "obstacle {:?}", peer.obstacle(&settings)).unwrap();
        }
        settings.devices.clear();
        for peer in peers::all() {
            writeln!(text, "obstacle to {} without devices {:?}", peer.name, peer.obstacle(&settings))
                .unwrap();
        }
    }
    for (listen, workers) in
        [(&["192.0.2.1:53", "[2001:db8::1]:5300"][..], 4), (&["[::1]:5300"], 1), (&["127.0.0.1:53"], 2)]
    {
        let settings = zone_settings(listen, workers);
        for server in authoritative::all() {
            let heading = format!("zones of {} at {listen:?} on {workers}", server.name);
            let arguments = server.arguments(&settings, Path::new(CONFIGURATION));
            entry(&mut text, &heading, &server.files(&settings), &arguments);
            writeln!(text, "obstacle {:?}, XDP {}", server.by_hand, server.is_xdp()).unwrap();
        }
    }
    rendered_streams(&mut text);
    text
}

#[test]
fn every_server_is_told_what_it_was_told_before() {
    let text = rendered();
    if text != EXPECTED {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("expected.txt");
        std::fs::write(&path, &text).unwrap();
        let difference = text.lines().zip(EXPECTED.lines()).find(|(now, then)| now != then);
        panic!("{difference:?}: all of it is in {}", path.display());
    }
}
