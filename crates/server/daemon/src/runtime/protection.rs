//! Tells operators what protects the answers of each upstream server from forgers.

use server_core::guessing::{LETTERS, PACKETS_MIN, Unknowns};
use server_core::upstreams::UpstreamCounts;

use super::ports::Ports;
use crate::config::{Config, Level, UpstreamProtocol, UpstreamServer};
use crate::log::Log;
use crate::snapshot::UpstreamState;

/// So few sockets are hardly ever drained while there is work, so that their ports stay.
const SOCKETS_MIN: usize = 8;

/// What all threads counted of a server, and what protects its answers. `kept` is the number of sockets of a
/// thread where they cannot be renewed: whoever has learnt their ports knows them.
pub(super) fn state<'c>(
    server: &UpstreamServer,
    ports: &Ports,
    kept: Option<usize>,
    counts: &(impl Iterator<Item = &'c UpstreamCounts> + Clone),
) -> UpstreamState {
    let mut state = UpstreamState { address: server.to_string(), ..UpstreamState::default() };
    for counts in counts.clone() {
        state.queries += counts.queries;
        state.answers += counts.answers;
        state.timeouts += counts.timeouts;
        state.in_flight += counts.in_flight as u64;
        state.near_misses += counts.near_misses;
        state.srtt_ns = state.srtt_ns.max(counts.srtt_ns);
        state.down |= counts.down;
    }
    // The forger chooses the thread that knows least.
    let all = |has: fn(&UpstreamCounts) -> bool| counts.clone().count() > 0 && counts.clone().all(has);
    let (cookie, spelled) = (all(|counts| counts.cookie), all(|counts| counts.spelled));
    if server.is_stream_only() || all(|counts| counts.guarded) {
        state.protection = vec![stream(server)];
        return state;
    }
    let letters = if spelled { LETTERS } else { 0 };
    let number = kept.map_or(ports.count(), |sockets| sockets as u32);
    let unknowns = Unknowns { ports: number, source_bits: server.source_bits(), letters, cookie };
    let parts = [
        (kept.is_none(), "ports"),
        (kept.is_some(), "ports not renewed"),
        (unknowns.source_bits > 0, "source"),
        (cookie, "cookie"),
        (spelled, "0x20"),
    ];
    state.protection = parts.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
    state.forged_packets = Some(unknowns.packets_for_even_chance());
    state
}

fn stream(server: &UpstreamServer) -> &'static str {
    match server.protocol {
        UpstreamProtocol::Udp | UpstreamProtocol::Tcp => "TCP",
        UpstreamProtocol::Tls => "TLS",
        UpstreamProtocol::Https => "HTTPS",
        UpstreamProtocol::Quic => "QUIC",
    }
}

/// Says at the start which servers ports and IDs alone protect too little: spelling and cookies are not known
/// yet, and a server may cease to have them.
pub(super) fn warn(config: &Config, ports: &Ports, log: &Log) {
    // Few sockets keep their ports while they are busy: whoever has learnt one knows it.
    let sockets = config.settings.asking.ports;
    let ports = if sockets < SOCKETS_MIN { sockets as u32 } else { ports.count() };
    for server in config.upstreams.iter().filter(|server| !server.is_stream_only()) {
        let unknowns = Unknowns { ports, source_bits: server.source_bits(), letters: 0, cookie: false };
        let packets = unknowns.packets_for_even_chance();
        if packets < PACKETS_MIN {
            let words = format_args!(
                "{packets:.1e} forged packets are an even chance to forge an answer of an upstream server: \
                 give upstream.ports and ip_local_reserved_ports more room, or ask over TLS"
            );
            log.event(Level::Warning, "guessing", words, &[("upstream", &server)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ports::Reserved;

    fn told(server: &str, counts: &[UpstreamCounts]) -> UpstreamState {
        told_with(server, None, counts)
    }

    fn told_with(server: &str, kept: Option<usize>, counts: &[UpstreamCounts]) -> UpstreamState {
        let text = format!("upstreams = [\"{server}\"]\nlisten = [\"127.0.0.1:5353\"]");
        let config = Config::parse(&text, "test").unwrap();
        state(&config.upstreams[0], &Ports::new(&Reserved::default(), &config), kept, &counts.iter())
    }

    #[test]
    fn every_protection_counts_that_all_threads_have() {
        let plain = UpstreamCounts::default();
        let both = UpstreamCounts { cookie: true, spelled: true, ..plain };
        let one = told("192.0.2.1", &[both, plain]);
        assert_eq!(one.protection, ["ports"]);
        assert!(one.forged_packets.is_some_and(|packets| packets >= PACKETS_MIN));
        let all = told("192.0.2.1", &[both, both]);
        assert_eq!(all.protection, ["ports", "cookie", "0x20"]);
        assert!(all.forged_packets > one.forged_packets);
        assert_eq!(told("192.0.2.1", &[]).protection, ["ports"], "nothing is known yet");
    }

    #[test]
    fn attack_ports_that_stay_protect_less() {
        let state = told_with("192.0.2.1", Some(64), &[UpstreamCounts::default()]);
        assert_eq!(state.protection, ["ports not renewed"]);
        assert!(state.forged_packets.is_some_and(|packets| packets < PACKETS_MIN));
    }

    #[test]
    fn streams_are_not_guessed() {
        let guarded = UpstreamCounts { guarded: true, ..UpstreamCounts::default() };
        for (server, counts, protection) in
            [("tcp://192.0.2.1", UpstreamCounts::default(), "TCP"), ("192.0.2.1", guarded, "TCP")]
        {
            let state = told(server, &[counts]);
            assert_eq!((state.protection, state.forged_packets), (vec![protection], None), "{server}");
        }
    }
}
