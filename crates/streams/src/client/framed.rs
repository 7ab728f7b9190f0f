//! Upstream servers over TCP and TLS: many questions on one connection, answered in any order (RFC 7766
//! 6.2.1).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::UPSTREAM_IN_FLIGHT_MAX;
use super::connection::Failure;
use super::ids::Ids;
use super::server::IDLE;
use crate::counts::UpstreamCells;
use crate::duplex::{Octets, write_some};
use crate::message::{id, is_reply, push_frame, set_id, take_frame};

/// No further question is written while so many octets wait for the server to take them.
const OUTPUT_PAUSE_OCTETS: usize = 64 << 10;

/// Questions of a connection at most, those among them that nobody waits for any more: most IDs are free.
const WAITING_MAX: usize = UPSTREAM_IN_FLIGHT_MAX + UPSTREAM_IN_FLIGHT_MAX / 2;

/// Room made for one read.
const READ_OCTETS: usize = 4 << 10;

/// How often questions that nobody waits for any more are cleared away.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// A connection. It ends when nobody holds this any more and no answer is awaited.
pub(super) struct Link(mpsc::Sender<Question>);

struct Question {
    octets: Vec<u8>,
    reply: oneshot::Sender<Vec<u8>>,
}

impl Link {
    pub fn start(stream: Octets, cells: Arc<UpstreamCells>) -> Self {
        let (sender, questions) = mpsc::channel(UPSTREAM_IN_FLIGHT_MAX);
        tokio::spawn(Box::pin(async move {
            let mut talk = ConnectionState::new(cells);
            // All questions that still wait learn of the end by their channels.
            let _ = talk.run(stream, questions).await;
        }));
        Self(sender)
    }

    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub async fn exchange(&self, query: &[u8]) -> Result<Vec<u8>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(Question { octets: query.to_vec(), reply }).map_err(Failure::lost)?;
        answer.await.map_err(Failure::lost)
    }
}

/// The state of a connection.
struct ConnectionState {
    waiting: HashMap<u16, Question>,
    ids: Ids,
    input: BytesMut,
    output: BytesMut,
    unflushed: bool,
    asked: Instant,
    cells: Arc<UpstreamCells>,
}

impl ConnectionState {
    fn new(cells: Arc<UpstreamCells>) -> Self {
        Self {
            waiting: HashMap::new(),
            ids: Ids::new(),
            input: BytesMut::new(),
            output: BytesMut::new(),
            unflushed: false,
            asked: Instant::now(),
            cells,
        }
    }

    /// Asks and listens until the connection ends, for whatever reason.
    async fn run(&mut self, stream: Octets, mut questions: mpsc::Receiver<Question>) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut tidy = interval(TIDY_EVERY);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_held = true;
        while is_held || !self.waiting.is_empty() {
            let may_ask = is_held && self.output.len() < OUTPUT_PAUSE_OCTETS;
            let may_write = self.unflushed || !self.output.is_empty();
            self.input.reserve(READ_OCTETS);
            tokio::select! {
                question = questions.recv(), if may_ask => match question {
                    // Who has lost patience already needs no answer.
                    Some(question) if question.reply.is_closed() => {}
                    Some(question) => self.ask(question)?,
                    None => is_held = false,
                },
                read = reader.read_buf(&mut self.input) => match read? {
                    0 => return Ok(()),
                    _ => self.take_answers()?,
                },
                written = write_some(&mut writer, &self.output), if may_write => {
                    let octets = written?;
                    self.unflushed = octets > 0;
                    self.output.advance(octets);
                }
                _ = tidy.tick() => {
                    self.tidy();
                    if self.waiting.is_empty() && self.asked.elapsed() >= IDLE {
                        break;
                    }
                }
            }
        }
        writer.shutdown().await
    }

    /// Forgets the questions that nobody waits for any more.
    fn tidy(&mut self) {
        self.waiting.retain(|_, question| !question.reply.is_closed());
    }

    /// Puts a question among the octets to be written, under an ID of its own.
    fn ask(&mut self, mut question: Question) -> io::Result<()> {
        if self.waiting.len() >= WAITING_MAX {
            self.tidy();
        }
        let id = self.ids.draw(|id| self.waiting.contains_key(&id)).ok_or(io::ErrorKind::Other)?;
        set_id(&mut question.octets, id);
        push_frame(&mut self.output, &question.octets);
        self.waiting.insert(id, question);
        self.asked = Instant::now();
        Ok(())
    }

    /// Gives the messages that have come to those who wait for them.
    fn take_answers(&mut self) -> io::Result<()> {
        while let Some(answer) = take_frame(&mut self.input).map_err(|_| io::ErrorKind::InvalidData)? {
            let id = id(&answer);
            match self.waiting.get(&id) {
                Some(question) if is_reply(&question.octets, &answer) => {
                    let question = self.waiting.remove(&id);
                    // Whoever asked may have lost patience.
                    let _ = question.map(|question| question.reply.send(answer));
                }
                _ => self.cells.mismatched.add(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// A connection, and its other end.
    fn connected() -> (Link, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        (Link::start(Box::pin(ours), Arc::default()), theirs)
    }

    /// Reads one query and answers it with itself, made a response.
    async fn echo(server: &mut DuplexStream) {
        let mut query = vec![0; usize::from(server.read_u16().await.unwrap())];
        server.read_exact(&mut query).await.unwrap();
        query[2] |= 0x80;
        let mut frame = BytesMut::new();
        push_frame(&mut frame, &query);
        server.write_all(&frame).await.unwrap();
    }

    const QUERY: [u8; 17] = [0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 28, 0, 1];

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        let (link, mut server) = connected();
        for _ in 0..3 {
            let (answer, ()) = tokio::join!(link.exchange(&QUERY), echo(&mut server));
            assert_eq!(answer.unwrap()[2..], [&[0x81][..], &QUERY[3..]].concat());
            tokio::time::sleep(IDLE / 2).await;
            assert!(!link.is_closed());
        }
        tokio::time::sleep(IDLE).await;
        assert!(link.is_closed());
        assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(link.exchange(&QUERY).await, Err(Failure::Lost));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_nobody_holds_or_waits_for_ends() {
        let (link, mut server) = connected();
        let asked = tokio::spawn(async move { link.exchange(&QUERY).await });
        let mut query = [0; 2 + QUERY.len()];
        server.read_exact(&mut query).await.unwrap();
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0, "nobody waits any more");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_connection_ends_all_questions() {
        let (link, server) = connected();
        let end = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(server);
        };
        let (first, second, ()) = tokio::join!(link.exchange(&QUERY), link.exchange(&QUERY), end);
        assert_eq!((first, second), (Err(Failure::Lost), Err(Failure::Lost)));
    }
}
