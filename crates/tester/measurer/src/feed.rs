//! Queries on their way from a thread that reads to the lanes, while a trial runs.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::workload::{Arena, Feed, Stamp};
use sys::cpu;

/// Queries that go to a lane at once.
pub(crate) const CHUNK_QUERIES: usize = 512;
/// Chunks that wait for each lane.
const CHUNKS_AHEAD: usize = 16;
/// A lane waits no longer than this for its first chunk.
const FIRST_CHUNK: Duration = Duration::from_secs(5);

/// Queries that go to a lane at once; of recorded ones also when and by whom each is asked.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub queries: Arena,
    pub stamps: Vec<Stamp>,
}

/// The lanes are gone.
pub(crate) struct Gone;

/// The reader's way to a lane.
pub(crate) struct Outlet {
    full: SyncSender<Chunk>,
    empty: Receiver<Chunk>,
}

impl Outlet {
    /// Hands the chunk over as soon as there is room, and puts an empty one in its place.
    pub fn give(&self, chunk: &mut Chunk) -> Result<(), Gone> {
        let mut empty = self.empty.try_recv().unwrap_or_default();
        empty.queries.clear();
        empty.stamps.clear();
        self.full.send(std::mem::replace(chunk, empty)).map_err(|_| Gone)
    }
}

/// Opens the feeds of a trial: with the first of them a thread starts that reads for all.
#[derive(Debug)]
pub(crate) struct Openings {
    /// The feeds of the trial that begins, by lane, until they are taken.
    waiting: Mutex<Vec<Option<ChunkFeed>>>,
    /// Processors of the thread that reads. A lane's thread is bound to one processor, and its child would
    /// be too.
    cpus: Vec<usize>,
}

impl Openings {
    pub fn new() -> Self {
        Self { waiting: Mutex::default(), cpus: cpu::available() }
    }

    /// The feed of a lane. `read` gives to the outlets, one for each lane, until the lanes are gone or there
    /// is no more; its error is why a lane ran out of queries.
    pub fn open(
        &self,
        lane: u64,
        lanes: u64,
        read: impl FnOnce(&[Outlet]) -> Result<(), String> + Send + 'static,
    ) -> Box<dyn Feed> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = |waiting: &mut Vec<Option<ChunkFeed>>| {
            (waiting.len() as u64 == lanes).then(|| waiting.get_mut(lane as usize)?.take()).flatten()
        };
        let feed = taken(&mut waiting).or_else(|| {
            *waiting = self.start(lanes, read);
            taken(&mut waiting)
        });
        drop(waiting);
        let mut feed = feed.expect("a lane's number is below that of the lanes");
        if let Ok(chunk) = feed.chunks.recv_timeout(FIRST_CHUNK) {
            feed.current = chunk;
        }
        Box::new(feed)
    }

    fn start(
        &self,
        lanes: u64,
        read: impl FnOnce(&[Outlet]) -> Result<(), String> + Send + 'static,
    ) -> Vec<Option<ChunkFeed>> {
        let why = Arc::new(Mutex::new(None));
        let (outlets, feeds): (Vec<_>, Vec<_>) = (0..lanes)
            .map(|_| {
                let (full, chunks) = sync_channel(CHUNKS_AHEAD);
                let (used, empty) = sync_channel(CHUNKS_AHEAD + 2);
                let why = Arc::clone(&why);
                let current = Chunk::default();
                (Outlet { full, empty }, Some(ChunkFeed { chunks, used, current, next: 0, over: false, why }))
            })
            .unzip();
        let cpus = self.cpus.clone();
        // It ends when the lanes are gone.
        std::thread::spawn(move || {
            // Where it may not, it reads where it is.
            let _ = cpu::restrict(&cpus);
            if let Err(error) = read(&outlets) {
                // Before the lanes see that nothing more will come, which dropping the outlets tells them.
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            drop(outlets);
        });
        feeds
    }
}

#[derive(Debug)]
struct ChunkFeed {
    chunks: Receiver<Chunk>,
    /// Chunks go back to be filled again.
    used: SyncSender<Chunk>,
    current: Chunk,
    next: usize,
    over: bool,
    why: Arc<Mutex<Option<String>>>,
}

impl Feed for ChunkFeed {
    fn ready(&mut self) -> usize {
        if self.next == self.current.queries.len() {
            match self.chunks.try_recv() {
                Ok(chunk) => {
                    let used = std::mem::replace(&mut self.current, chunk);
                    self.next = 0;
                    let _ = self.used.try_send(used);
                }
                Err(TryRecvError::Disconnected) => self.over = true,
                Err(TryRecvError::Empty) => {}
            }
        }
        self.current.queries.len() - self.next
    }

    fn next(&mut self) -> Option<&[u8]> {
        let query = self.current.queries.get(self.next)?;
        self.next += 1;
        Some(query)
    }

    fn stamp(&self, ahead: usize) -> Option<Stamp> {
        self.current.stamps.get(self.next + ahead).copied()
    }

    fn ended(&mut self) -> Option<String> {
        if !self.over {
            return None;
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(why.unwrap_or_else(|| "the query file could not be read to its end".into()))
    }
}
