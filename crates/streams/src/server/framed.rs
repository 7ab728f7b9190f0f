//! Clients over TCP and TLS: many queries on one connection, answered in any order (RFC 7766 6.2, RFC 7858
//! 3.3).

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::budget::Charge;
use super::pending::{Outcome, Reply};
use super::session::{OUTPUT_MAX_OCTETS, Session};
use crate::duplex::{Octets, write_some};
use crate::message::{LENGTH_OCTETS, QUERY_OCTETS_MAX, push_frame, take_frame};

/// A connection is read no further while so many octets of answers wait for the client to take them.
const OUTPUT_PAUSE_OCTETS: usize = 128 << 10;

/// A connection with queries in progress ends after this time without any event.
const OWNER_WAIT: Duration = Duration::from_secs(120);

/// Room made for one read.
const READ_OCTETS: usize = 4 << 10;

/// A buffer with more room is given back when it is empty.
const BUFFER_KEPT_OCTETS: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has gone or was idle, or the listener has.
    Quiet,
    /// The client sent what is no message, or a longer one than queries are.
    Malformed,
    /// A message or a write took too long.
    TooSlow,
}

/// Serves a client until the connection ends.
pub(super) async fn serve(session: &Session, stream: Octets) {
    let (reader, writer) = tokio::io::split(stream);
    let (answer_sender, answers) = mpsc::unbounded_channel();
    let mut connection = Connection {
        session,
        answer_sender,
        input: BytesMut::new(),
        output: BytesMut::new(),
        waiting: session.charge(0),
        unflushed: false,
        in_progress: 0,
        ended: false,
        moved: Instant::now(),
        frame_began: None,
    };
    match connection.run(reader, writer, answers).await {
        End::Quiet => {}
        End::Malformed => session.cells().malformed.add(),
        End::TooSlow => session.cells().too_slow.add(),
    }
}

struct Connection<'a> {
    session: &'a Session,
    answer_sender: mpsc::UnboundedSender<Outcome>,
    input: BytesMut,
    output: BytesMut,
    /// Counts the output.
    waiting: Charge,
    /// TLS may hold octets back that were written.
    unflushed: bool,
    /// Queries the owner has.
    in_progress: usize,
    /// The client will send no more.
    ended: bool,
    /// When a message last came or octets last went.
    moved: Instant,
    /// When the message that is not whole yet began.
    frame_began: Option<Instant>,
}

impl Connection<'_> {
    async fn run(
        &mut self,
        mut reader: ReadHalf<Octets>,
        mut writer: WriteHalf<Octets>,
        mut answers: mpsc::UnboundedReceiver<Outcome>,
    ) -> End {
        loop {
            if let Err(end) = self.take_queries() {
                return end;
            }
            if self.output.len() > OUTPUT_MAX_OCTETS {
                return End::TooSlow;
            }
            if self.is_over() {
                // A polite end; when it fails, the client has gone already.
                let _ = tokio::time::timeout(self.session.limits.message_timeout, writer.shutdown()).await;
                return End::Quiet;
            }
            let may_read = !self.ended && self.has_room();
            let may_write = self.unflushed || !self.output.is_empty();
            let (deadline, end) = self.deadline();
            tokio::select! {
                Some(outcome) = answers.recv() => self.queue(outcome, &mut answers),
                read = read_some(&mut reader, &mut self.input), if may_read => match read {
                    Ok(0) => self.ended = true,
                    Ok(_) => {}
                    Err(_) => return End::Quiet,
                },
                written = write_some(&mut writer, &self.output), if may_write => match written {
                    Ok(octets) => self.written(octets),
                    Err(_) => return End::Quiet,
                },
                () = tokio::time::sleep_until(deadline) => return end,
                () = self.session.retired(), if !self.session.is_retired() => {}
            }
        }
    }

    /// Whether the client may have further queries in progress.
    fn has_room(&self) -> bool {
        self.in_progress < self.session.limits.pipelined.max(1) && self.output.len() < OUTPUT_PAUSE_OCTETS
    }

    /// Whether nothing is left to do, and nothing more will come or is wanted.
    fn is_over(&self) -> bool {
        let idle = self.in_progress == 0 && self.output.is_empty() && !self.unflushed;
        idle && (self.ended || (self.input.is_empty() && self.session.is_retired()))
    }

    /// When the connection ends if nothing happens, and why.
    fn deadline(&self) -> (Instant, End) {
        let limits = &self.session.limits;
        if self.unflushed || !self.output.is_empty() {
            return (self.moved + limits.message_timeout, End::TooSlow);
        }
        if self.in_progress > 0 {
            // The owner answers or forgets each query, or has it swept up before this.
            let owner = (Instant::now() + OWNER_WAIT, End::Quiet);
            return self.frame_began.map_or(owner, |began| (began + limits.message_timeout, End::TooSlow));
        }
        match self.frame_began {
            Some(began) => (began + limits.message_timeout, End::TooSlow),
            None => (self.moved + limits.idle, End::Quiet),
        }
    }

    /// Gives whole messages to the owner, as many as may be in progress.
    fn take_queries(&mut self) -> Result<(), End> {
        while self.has_room() {
            let Ok(permit) = self.session.usage.pipeline.clone().try_acquire_owned() else { break };
            if is_too_long(&self.input) {
                return Err(End::Malformed);
            }
            let Some(octets) = take_frame(&mut self.input).map_err(|_| End::Malformed)? else {
                return self.note_partial_frame();
            };
            (self.moved, self.frame_began) = (Instant::now(), None);
            self.in_progress += 1;
            self.session.offer(octets, Reply::Connection(self.answer_sender.clone()), permit);
        }
        // Nothing is read now, so the client cannot be blamed for a message that stays half.
        self.frame_began = None;
        Ok(())
    }

    /// Starts the clock of a message that is not whole, and finds the one that will never be.
    fn note_partial_frame(&mut self) -> Result<(), End> {
        if self.input.is_empty() {
            self.frame_began = None;
        } else if self.ended && self.in_progress == 0 {
            return Err(End::Malformed);
        } else if !self.ended && self.frame_began.is_none() {
            self.frame_began = Some(Instant::now());
        }
        Ok(())
    }

    /// Puts an answer, and all others that are ready, among the octets to be written.
    fn queue(&mut self, outcome: Outcome, answers: &mut mpsc::UnboundedReceiver<Outcome>) {
        if self.output.is_empty() && !self.unflushed {
            self.moved = Instant::now();
        }
        let mut next = Some(outcome);
        while let Some(outcome) = next {
            self.in_progress -= 1;
            if outcome.is_some_and(|answer| push_frame(&mut self.output, &answer.octets)) {
                self.session.cells().answers.add();
            }
            self.waiting.resize(self.output.len());
            next = answers.try_recv().ok();
        }
    }

    fn written(&mut self, octets: usize) {
        self.moved = Instant::now();
        self.unflushed = octets > 0;
        self.output.advance(octets);
        self.waiting.resize(self.output.len());
        if self.output.is_empty() && self.output.capacity() > BUFFER_KEPT_OCTETS {
            self.output = BytesMut::new();
        }
    }
}

/// Whether the message that has begun is longer than a query may be.
fn is_too_long(input: &[u8]) -> bool {
    let length = input.first_chunk::<LENGTH_OCTETS>();
    length.is_some_and(|&length| usize::from(u16::from_be_bytes(length)) > QUERY_OCTETS_MAX)
}

/// Reads what is there, as far as there is room.
async fn read_some(reader: &mut ReadHalf<Octets>, input: &mut BytesMut) -> io::Result<usize> {
    input.reserve(READ_OCTETS);
    reader.read_buf(input).await
}
