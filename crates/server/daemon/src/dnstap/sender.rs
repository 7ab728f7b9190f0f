//! The thread that speaks Frame Streams with the receiver.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use super::Counters;
use crate::config::Level;
use crate::log::Log;

/// How long the receiver may take for its part of the handshake, or to take what is written.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the thread waits before it connects again.
const PAUSE: Duration = Duration::from_secs(1);
/// So many octets are written at once.
const BATCH_OCTETS: usize = 64 << 10;

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// Control frames of Frame Streams, and the one field that they have.
const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;
const FINISH: u32 = 5;
const FIELD_CONTENT_TYPE: u32 = 1;
/// The longest control frame.
const CONTROL_OCTETS_MAX: usize = 512;

/// What goes through the queue.
#[derive(Debug)]
pub(super) enum Item {
    /// A data frame with its length.
    Frame(Vec<u8>),
    /// The stream ends; somebody waits for it.
    Finish(SyncSender<()>),
}

/// Starts the thread; it ends with the stream, or when the last [`super::Tap`] is gone.
pub(super) fn start(
    socket: PathBuf,
    items: Receiver<Item>,
    counters: Arc<Counters>,
    log: Log,
) -> io::Result<()> {
    let sender = Sender { socket, items, counters, log };
    std::thread::Builder::new().name("dns64d-dnstap".into()).spawn(move || sender.run()).map(drop)
}

struct Sender {
    socket: PathBuf,
    items: Receiver<Item>,
    counters: Arc<Counters>,
    log: Log,
}

/// Who waits for the end of the stream, if anybody does.
type Waiting = Option<SyncSender<()>>;

enum End {
    /// No more will come.
    Finished(Waiting),
    Broken(io::Error),
}

impl Sender {
    fn run(self) {
        loop {
            let end = connect(&self.socket).map_or_else(End::Broken, |mut stream| {
                self.say(Level::Info, "the dnstap receiver is there");
                self.send(&mut stream)
            });
            let end = match end {
                End::Broken(error) => {
                    self.say(Level::Warning, format_args!("no dnstap receiver, will try again: {error}"));
                    std::thread::sleep(PAUSE);
                    self.drop_queued()
                }
                End::Finished(waiting) => Some(waiting),
            };
            if let Some(waiting) = end {
                if let Some(waiting) = waiting {
                    let _ = waiting.try_send(());
                }
                return;
            }
        }
    }

    fn say(&self, level: Level, message: impl std::fmt::Display) {
        self.log.event(level, "dnstap", message, &[("socket", &self.socket.display())]);
    }

    /// Drops the frames of the time without a receiver: they are old, and the end may stand behind them.
    /// Returns who waits for the end, if it is there.
    fn drop_queued(&self) -> Option<Waiting> {
        loop {
            match self.items.try_recv() {
                Ok(Item::Frame(frame)) => {
                    self.counters.queued_octets.fetch_sub(frame.len(), Ordering::Relaxed);
                    self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Item::Finish(waiting)) => return Some(Some(waiting)),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => return Some(None),
            }
        }
    }

    /// Writes frames as they come, until the end or an error.
    fn send(&self, stream: &mut UnixStream) -> End {
        let mut batch = Vec::with_capacity(BATCH_OCTETS);
        loop {
            batch.clear();
            let (frames, end) = self.collect(&mut batch);
            let written = stream.write_all(&batch);
            let count = if written.is_ok() { &self.counters.sent } else { &self.counters.dropped };
            count.fetch_add(frames, Ordering::Relaxed);
            match (end, written) {
                (Some(waiting), written) => {
                    // A receiver that is gone has no use for the end of the stream.
                    let _ = written.and_then(|()| stop(stream));
                    return End::Finished(waiting);
                }
                (None, Err(error)) => return End::Broken(error),
                (None, Ok(())) => {}
            }
        }
    }

    /// Waits for a frame and takes those that are there with it; returns their number, and the end if it
    /// came.
    fn collect(&self, batch: &mut Vec<u8>) -> (u64, Option<Waiting>) {
        let mut frames = 0;
        let mut next = self.items.recv().map_err(|_| TryRecvError::Disconnected);
        loop {
            match next {
                Ok(Item::Frame(frame)) => {
                    self.counters.queued_octets.fetch_sub(frame.len(), Ordering::Relaxed);
                    batch.extend_from_slice(&frame);
                    frames += 1;
                }
                Ok(Item::Finish(waiting)) => return (frames, Some(Some(waiting))),
                Err(TryRecvError::Disconnected) => return (frames, Some(None)),
                Err(TryRecvError::Empty) => return (frames, None),
            }
            if batch.len() >= BATCH_OCTETS {
                return (frames, None);
            }
            next = self.items.try_recv();
        }
    }
}

/// Connects and offers dnstap records: READY, ACCEPT, START.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&control(READY, Some(CONTENT_TYPE)))?;
    let body = expect(&mut stream, ACCEPT)?;
    if !accepts(&body) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not take dnstap records"));
    }
    stream.write_all(&control(START, Some(CONTENT_TYPE)))?;
    Ok(stream)
}

/// Ends the stream: STOP, FINISH.
fn stop(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(&control(STOP, None))?;
    expect(stream, FINISH).map(drop)
}

/// A control frame: zero, its length, its type, its fields.
fn control(kind: u32, content_type: Option<&[u8]>) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    if let Some(content_type) = content_type {
        body.extend_from_slice(&FIELD_CONTENT_TYPE.to_be_bytes());
        body.extend_from_slice(&(content_type.len() as u32).to_be_bytes());
        body.extend_from_slice(content_type);
    }
    let mut frame = [0; 4].to_vec();
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// Reads a control frame of a type and returns its fields.
fn expect(stream: &mut UnixStream, kind: u32) -> io::Result<Vec<u8>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "it does not speak Frame Streams");
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let word =
        |index: usize| u32::from_be_bytes([head[index], head[index + 1], head[index + 2], head[index + 3]]);
    let length = word(4) as usize;
    if word(0) != 0 || word(8) != kind || !(4..=CONTROL_OCTETS_MAX).contains(&length) {
        return Err(broken());
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Whether one of the content types of an ACCEPT frame is ours; one without any accepts all.
fn accepts(mut fields: &[u8]) -> bool {
    let mut any = false;
    while let [0, 0, 0, 1, a, b, c, d, rest @ ..] = fields {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some((content_type, rest)) = rest.split_at_checked(length) else { return false };
        if content_type == CONTENT_TYPE {
            return true;
        }
        (any, fields) = (true, rest);
    }
    !any && fields.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_are_as_frame_streams_has_them() {
        // As fstrm_capture shows it.
        let ready = b"\0\0\0\0\0\0\0\x22\0\0\0\x04\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
        assert_eq!(control(READY, Some(CONTENT_TYPE)), ready);
        assert_eq!(control(STOP, None), [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3]);
        assert!(accepts(&ready[12..]) && accepts(b""));
        assert!(
            !accepts(b"\0\0\0\x01\0\0\0\x01x") && !accepts(b"\0\0\0\x01\xff\xff\xff\xff") && !accepts(b"\0")
        );
    }
}
