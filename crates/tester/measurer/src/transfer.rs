//! Zone transfers (AXFR, RFC 5936; IXFR, RFC 1995) over TCP, or over TLS (RFC 9103), with their times.
//!
//! A transfer is one query and a stream of messages, so that nothing is gained by an event loop: the socket
//! blocks, for a short time each, and every wait has a limit.

mod rate;

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::transfer::{Ask, Incoming, TransferFault};
use record::{Transfer, TransferEnd, TransferFailure};
use rustls::client::ClientConnection;
use sys::clock;

use crate::transport::stream::{Tls, in_words, is_own_limit};
pub use rate::{at_rate, check_rate};

/// How long one look at the socket waits.
const LOOK: Duration = Duration::from_millis(50);
/// Octets that are read at once.
const READ_OCTETS: usize = 1 << 16;

/// What is asked for, and how much of it is taken.
#[derive(Clone, Debug)]
pub struct TransferPlan {
    /// The server.
    pub server: SocketAddr,
    /// How the handshake is done, over TLS.
    pub tls: Option<Tls>,
    /// The zone, or its changes.
    pub ask: Ask,
    /// The longest that the connection, the handshake and each message may take, in ns.
    pub timeout_ns: u64,
    /// The most octets of messages.
    pub octets_max: u64,
    /// The most messages.
    pub messages_max: u64,
}

impl TransferPlan {
    /// A transfer within the limits of a large zone: 64 GiB, 2^32 messages.
    pub fn new(server: SocketAddr, ask: Ask, timeout_ns: u64) -> Self {
        Self { server, tls: None, ask, timeout_ns, octets_max: 1 << 36, messages_max: 1 << 32 }
    }
}

/// Transfers the zone once with a query of this ID. The time, on `CLOCK_MONOTONIC`, is from the transfer's
/// instant to the latest end. A failure is in the value.
pub fn transfer(plan: &TransferPlan, id: u16, time: Range<u64>, stop: &AtomicBool) -> Transfer {
    let mut told =
        Transfer { late_ns: clock::monotonic_ns().saturating_sub(time.start), ..Transfer::default() };
    let mut watch = Watch { timeout_ns: plan.timeout_ns, until_ns: time.end, step_until_ns: 0, stop };
    let ended = connect(plan, &mut watch, &mut told).and_then(|stream| {
        let (mut incoming, query) = Incoming::begin(&plan.ask, id, clock::monotonic_ns());
        let received = receive(stream, &query, plan, &mut incoming, (&mut watch, &mut told));
        tell(&incoming, &mut told);
        received
    });
    told.failure = ended.err();
    // A signature may be missing behind the last record.
    told.answer = told.answer.take().filter(|_| told.failure.is_none());
    told.whole_ns = clock::monotonic_ns().saturating_sub(time.start);
    told
}

/// What has come.
fn tell(incoming: &Incoming, told: &mut Transfer) {
    told.messages = incoming.messages();
    told.octets = incoming.octets();
    told.records = incoming.records();
    told.removed = incoming.removed();
    told.added = incoming.added();
    told.serial = incoming.serial();
    told.answer = incoming.answer().cloned();
}

/// What octets come and go by.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn failure(place: TransferEnd, reason: impl Into<String>) -> TransferFailure {
    TransferFailure { place, reason: reason.into() }
}

/// How long is waited.
struct Watch<'a> {
    timeout_ns: u64,
    until_ns: u64,
    /// The end of the step under way.
    step_until_ns: u64,
    stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// Begins a step, which may take as long as the timeout; tells when.
    fn begin_step(&mut self) -> u64 {
        let now_ns = clock::monotonic_ns();
        self.step_until_ns = now_ns.saturating_add(self.timeout_ns).min(self.until_ns);
        now_ns
    }

    /// The time that is left of the step.
    ///
    /// # Errors
    /// None is, or the user ended the program.
    fn left(&self, doing: &str) -> Result<Duration, TransferFailure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(failure(TransferEnd::Interrupted, format!("interrupted while {doing}")));
        }
        let now_ns = clock::monotonic_ns();
        match self.step_until_ns.checked_sub(now_ns) {
            Some(left_ns @ 1..) => Ok(Duration::from_nanos(left_ns)),
            _ if now_ns >= self.until_ns => {
                Err(failure(TransferEnd::TimedOut, format!("the time was over while {doing}")))
            }
            _ => Err(failure(TransferEnd::TimedOut, format!("timeout while {doing}"))),
        }
    }

    /// Tries until the step is over.
    fn patiently<T>(&self, doing: &str, mut attempt: impl FnMut() -> io::Result<T>) -> Result<T, Broken> {
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    self.left(doing).map_err(Broken::Ended)?;
                }
                Err(error) => return Err(Broken::Error(error)),
            }
        }
    }
}

/// Why a step did not come to its end.
enum Broken {
    Ended(TransferFailure),
    Error(io::Error),
}

impl Broken {
    /// The failure, where an error of the stream means this place.
    fn at(self, place: TransferEnd, doing: &str) -> TransferFailure {
        match self {
            Self::Ended(failure) => failure,
            Self::Error(error) if error.kind() == ErrorKind::UnexpectedEof => {
                failure(place, format!("the server closed the connection while {doing}"))
            }
            // The handshake failed.
            Self::Error(error)
                if place == TransferEnd::Handshake && error.kind() == ErrorKind::InvalidData =>
            {
                failure(place, in_words(&error.to_string()))
            }
            Self::Error(error) => failure(place, format!("{error} while {doing}")),
        }
    }
}

/// Connects, with a handshake where there is one.
fn connect(
    plan: &TransferPlan,
    watch: &mut Watch<'_>,
    told: &mut Transfer,
) -> Result<Box<dyn Stream>, TransferFailure> {
    let began_ns = watch.begin_step();
    let left = watch.left("connecting")?;
    let socket = TcpStream::connect_timeout(&plan.server, left).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => failure(TransferEnd::Refused, "nothing listens there"),
        ErrorKind::TimedOut => failure(TransferEnd::TimedOut, "timeout while connecting"),
        _ if is_own_limit(&error) => failure(TransferEnd::OwnLimit, error.to_string()),
        _ => failure(TransferEnd::Unreachable, error.to_string()),
    })?;
    let connected_ns = watch.begin_step();
    told.connect_ns = Some(connected_ns.saturating_sub(began_ns));
    let set = socket
        .set_nodelay(true)
        .and_then(|()| socket.set_read_timeout(Some(LOOK)))
        .and_then(|()| socket.set_write_timeout(Some(LOOK)));
    set.map_err(|error| failure(TransferEnd::Unreachable, error.to_string()))?;
    let Some(tls) = &plan.tls else { return Ok(Box::new(socket)) };
    let session = tls.begin().map_err(|error| failure(TransferEnd::Handshake, error.to_string()))?;
    let (mut sealed, doing) = (Sealed { session, socket }, "in the handshake");
    while sealed.session.is_handshaking() {
        let moved = watch.patiently(doing, || sealed.step());
        moved.map_err(|broken| broken.at(TransferEnd::Handshake, doing))?;
        watch.left(doing)?;
    }
    told.handshake_ns = Some(clock::monotonic_ns().saturating_sub(connected_ns));
    Ok(Box::new(sealed))
}

/// A stream over TLS. No call reads the socket more than once: a server that sends octets one by one must not
/// lengthen a step, as it would in rustls's own stream.
struct Sealed {
    session: ClientConnection,
    socket: TcpStream,
}

impl Sealed {
    /// Sends what is to be sent, and takes what has arrived.
    fn step(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.session.read_tls(&mut self.socket)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.session
            .process_new_packets()
            .map(drop)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Read for Sealed {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        match self.session.reader().read(place) {
            // The caller looks at the time and comes again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.step().and(Err(error)),
            read => read,
        }
    }
}

impl Write for Sealed {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.session.writer().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

/// Sends the query and takes all messages.
fn receive(
    stream: Box<dyn Stream>,
    query: &[u8],
    plan: &TransferPlan,
    incoming: &mut Incoming,
    (watch, told): (&mut Watch<'_>, &mut Transfer),
) -> Result<(), TransferFailure> {
    let mut stream = BufReader::with_capacity(READ_OCTETS, stream);
    let asked_ns = watch.begin_step();
    send(stream.get_mut(), query, watch)?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let mut length = [0; 2];
        fill(&mut stream, &mut length, watch)?;
        let message = &mut buffer[..usize::from(u16::from_be_bytes(length))];
        fill(&mut stream, message, watch)?;
        // A read may have blocked for longer than there was time.
        watch.left("waiting for a message")?;
        let taken_ns = watch.begin_step();
        told.last_message_ns = Some(taken_ns.saturating_sub(asked_ns));
        told.first_message_ns = told.first_message_ns.or(told.last_message_ns);
        if incoming.take(taken_ns, message).map_err(|fault| failure(place(&fault), fault.to_string()))? {
            return Ok(());
        }
        if incoming.octets() > plan.octets_max || incoming.messages() >= plan.messages_max {
            let (messages, octets) = (incoming.messages(), incoming.octets());
            let reason = format!("no end after {messages} messages of {octets} octets");
            return Err(failure(TransferEnd::TooLarge, reason));
        }
        watch.left("receiving")?;
    }
}

fn place(fault: &TransferFault) -> TransferEnd {
    match fault {
        TransferFault::Rcode(_) => TransferEnd::Rcode,
        TransferFault::Signature(_) => TransferEnd::Signature,
        TransferFault::Malformed(_) => TransferEnd::Malformed,
    }
}

/// Sends a message behind its length.
fn send(stream: &mut impl Write, message: &[u8], watch: &Watch<'_>) -> Result<(), TransferFailure> {
    let doing = "sending the query";
    let framed = [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let mut rest = &framed[..];
    while !rest.is_empty() {
        let written = watch.patiently(doing, || stream.write(rest));
        let written = written.map_err(|broken| broken.at(TransferEnd::ClosedEarly, doing))?;
        rest = &rest[written..];
    }
    watch.patiently(doing, || stream.flush()).map_err(|broken| broken.at(TransferEnd::ClosedEarly, doing))
}

/// Reads as many octets as the place has room for.
fn fill(stream: &mut impl Read, place: &mut [u8], watch: &Watch<'_>) -> Result<(), TransferFailure> {
    let doing = "waiting for a message";
    let mut filled = 0;
    while filled < place.len() {
        let read = watch.patiently(doing, || match stream.read(&mut place[filled..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            read => read,
        });
        filled += read.map_err(|broken| broken.at(TransferEnd::ClosedEarly, doing))?;
        // Octets that come one by one do not lengthen the step.
        if filled < place.len() {
            watch.left(doing)?;
        }
    }
    Ok(())
}
