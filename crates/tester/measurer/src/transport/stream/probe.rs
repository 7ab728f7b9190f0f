//! One query by one connection, before a trial sends any at a rate.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::connections::{Breakdown, Fate};
use engine::queries_each::QueriesEach;
use sys::clock;

use super::{PoolConfig, StreamConfig, StreamTransport};
use crate::transport::{Transport, UdpConfig};

/// Why no answer came.
#[derive(Debug)]
pub enum Unanswered {
    /// The user ended it.
    Interrupted,
    /// The connection, with the reason of a handshake that failed or what the server said instead.
    Broken(Breakdown, Option<String>),
    /// There was a connection, and no answer by it.
    Silent,
}

/// How long one look at the connection waits.
const LOOK: Duration = Duration::from_millis(10);

/// Asks `query` by a connection of its own; what the answer says does not matter.
///
/// # Errors
/// The descriptors that are needed cannot be had. Why no answer came is in the value.
pub fn probe(
    streams: &StreamConfig,
    udp: &UdpConfig,
    timeout_ns: u64,
    query: &[u8],
    stop: &AtomicBool,
) -> io::Result<Result<(), Unanswered>> {
    let mut transport = StreamTransport::unopened(PoolConfig {
        streams: StreamConfig { queries_each: QueriesEach::default(), ..streams.clone() },
        server: udp.server,
        clients: 1,
        first_client: 0,
        sources: udp.sources,
        timeout_ns,
        connections_max: 1,
        seed: 0,
    })?;
    transport.send(0, 1, &mut |buffer| {
        buffer[..query.len()].copy_from_slice(query);
        query.len()
    });
    // The connection may take as long, and the answer again.
    let until_ns = clock::monotonic_ns() + 2 * timeout_ns;
    while clock::monotonic_ns() < until_ns {
        if stop.load(Ordering::Relaxed) {
            return Ok(Err(Unanswered::Interrupted));
        }
        let mut answered = false;
        transport.turn(LOOK, &mut |_, _, reply| {
            answered |= reply.first_chunk::<2>() == query.first_chunk::<2>();
            answered
        })?;
        if answered {
            return Ok(Ok(()));
        }
        let mut lost = None;
        transport.settle(&mut |fate| {
            if let Fate::Lost { why, .. } = fate {
                lost = Some(why);
            }
        });
        if let Some(why) = lost {
            let stats = transport.stats();
            let reason = stats.handshake_failures.keys().chain(stats.refusals.keys()).next().cloned();
            return Ok(Err(Unanswered::Broken(why, reason)));
        }
    }
    Ok(Err(Unanswered::Silent))
}
