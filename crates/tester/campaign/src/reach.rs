//! Checks that a server answers at all, before a trial sends queries at a rate.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::connections::Breakdown;
use engine::workload::{Variation, Workload, WorkloadSpec};
use measurer::transport::stream::{StreamConfig, Unanswered, probe};
use measurer::transport::{Sources, UdpConfig};
use sys::bpf::{Attached, attach_pass};
use sys::link::device_to;
use sys::udp::Options;

use super::target::{Target, transport_of};
use super::tester::Tester;

const ATTEMPTS: u16 = 3;
/// How long each reply is waited for.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Longer replies are cut.
const REPLY_OCTETS: usize = 2048;

/// Why no reply came.
#[derive(Debug)]
pub enum Unreached {
    /// The user ended it.
    Interrupted,
    /// The Tester cannot ask in the way it was told: one line.
    Tester(String),
    /// The server, or the way to it: one line.
    Server(String),
}

impl From<String> for Unreached {
    fn from(reason: String) -> Self {
        Self::Server(reason)
    }
}

/// Asks the server for the names before the first one of the next trial, so that no cache is warmed for it,
/// one name for each attempt: a server may be silent for a single name.
///
/// It asks from the Tester's first source address, with a port of its own.
///
/// # Errors
/// Back-end or sources cannot be used here; nothing listens there, or no reply came. What the reply says does
/// not matter.
pub fn reach(target: &Target, tester: &Tester) -> Result<(), Unreached> {
    tester.io(target).map_err(|error| Unreached::Tester(error.to_string()))?;
    sys::netns::inside(tester.namespace.as_deref(), || reach_from_here(target, tester))
        .map_err(|error| Unreached::Tester(error.to_string()))?
}

fn reach_from_here(target: &Target, tester: &Tester) -> Result<(), Unreached> {
    let server = target.server;
    let unusable = |error: std::io::Error| Unreached::Tester(error.to_string());
    let mut sources = Sources::default();
    if tester.backend.has_sockets() {
        tester.sources.check(tester.source_ports, server).map_err(unusable)?;
        sources.addresses = tester.sources.addresses;
    }
    if let Some(streams) = &target.streams {
        return reach_by_connection(streams, target, tester);
    }
    // A veth takes what a server's XDP program sends only where it has a program itself.
    let _pass = (!tester.backend.has_sockets()).then(|| pass(server));
    let bound = sources.bind(0, server, &Options::default()).map_err(unusable)?;
    let workload = queries(target, tester)?;
    let cannot = |error: std::io::Error| format!("cannot send to {server}: {error}");
    let socket = UdpSocket::from(bound.as_fd().try_clone_to_owned().map_err(cannot)?);
    socket.set_nonblocking(false).map_err(cannot)?;
    socket.connect(server).map_err(cannot)?;
    socket.set_read_timeout(Some(REPLY_TIMEOUT)).map_err(cannot)?;
    let mut last = "no answer".to_owned();
    for id in 0..ATTEMPTS {
        if tester.stopped() {
            return Err(Unreached::Interrupted);
        }
        match ask(&socket, &workload, id) {
            Ok(true) => return Ok(()),
            Ok(false) => last = "no DNS answer".into(),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(format!(
                    "nothing listens at {server} (connection refused): is the server running?"
                )
                .into());
            }
            // A signal interrupts the call; whether it means the end is asked next.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(cannot(error).into()),
        }
    }
    if tester.stopped() {
        return Err(Unreached::Interrupted);
    }
    Err(format!(
        "{last} from {server} in {ATTEMPTS} s: is the server running, and does it allow this client?"
    )
    .into())
}

/// Queries for the [`ATTEMPTS`] names before the first one of the next trial.
fn queries(target: &Target, tester: &Tester) -> Result<Workload, String> {
    let first_name = tester.next_name.wrapping_sub(ATTEMPTS.into());
    let spec = WorkloadSpec { first_name, ..target.workload.clone() };
    let workload = Workload::new(spec).map_err(|error| error.to_string())?;
    if !workload.is_streamed() {
        return Ok(workload);
    }
    // Its queries come with the trial; any other does as well.
    let spec = WorkloadSpec { variation: Variation::default(), ..workload.spec().clone() };
    Workload::new(spec).map_err(|error| error.to_string())
}

/// The same by one connection.
fn reach_by_connection(streams: &StreamConfig, target: &Target, tester: &Tester) -> Result<(), Unreached> {
    let mut query = [0; 512];
    let length = queries(target, tester)?.write(u64::from(ATTEMPTS) - 1, 0, &mut query);
    let udp = UdpConfig {
        server: target.server,
        sockets: 1,
        first_socket: 0,
        sources: tester.sources,
        receive_buffer_octets: 0,
    };
    let timeout_ns = u64::try_from(REPLY_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
    let probed = probe(streams, &udp, timeout_ns, &query[..length], &tester.stop)
        .map_err(|error| Unreached::Tester(error.to_string()))?;
    let (server, transport) = (target.server, transport_of(streams));
    let protocol = transport.protocol_in_words();
    match probed {
        Ok(()) => Ok(()),
        Err(Unanswered::Interrupted) => Err(Unreached::Interrupted),
        Err(Unanswered::Broken(Breakdown::Refused, _)) => Err(Unreached::Server(format!(
            "nothing listens at {server} for {protocol} (connection refused): is the server running?"
        ))),
        Err(Unanswered::Broken(Breakdown::Handshake, reason)) => Err(Unreached::Server(format!(
            "the handshake with {server} failed: {}",
            reason.as_deref().unwrap_or("no reason given")
        ))),
        Err(Unanswered::Broken(Breakdown::HttpStatus | Breakdown::HttpMalformed, Some(said))) => {
            Err(Unreached::Server(format!(
                "no answer over {protocol} from {server}, but {said}: is the path of --doh-path right?"
            )))
        }
        Err(Unanswered::Broken(why, _)) => Err(Unreached::Server(format!(
            "no {protocol} connection to {server}: {}",
            why.place().as_str().replace('_', " ")
        ))),
        Err(Unanswered::Silent) => Err(Unreached::Server(format!(
            "no answer over {protocol} from {server} in {} s: does the server allow this client?",
            REPLY_TIMEOUT.as_secs()
        ))),
    }
}

/// A program on the server's device that lets everything pass; whoever cannot have it need not.
fn pass(server: SocketAddr) -> Option<Attached> {
    attach_pass(device_to(server).ok()?.index, None).ok()
}

/// Whether a reply with the ID of this attempt, or of one before, came.
fn ask(socket: &UdpSocket, workload: &Workload, id: u16) -> std::io::Result<bool> {
    let (mut query, mut reply) = ([0; 512], [0; REPLY_OCTETS]);
    let length = workload.write(u64::from(ATTEMPTS - 1 - id), id, &mut query);
    socket.send(&query[..length])?;
    let received = socket.recv(&mut reply)?;
    let reply = &reply[..received];
    let replied = reply.first_chunk().map(|octets| u16::from_be_bytes(*octets));
    Ok(replied.is_some_and(|replied| replied <= id) && reply.get(2).is_some_and(|flags| flags & 0x80 != 0))
}
