//! A file that is read while the trial runs: one thread reads, the lanes take.

use std::fs::File;
use std::io::BufReader;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::workload::{Arena, Feed, Feeds, shuffled};

use super::read::Queries;
use super::{FileError, READ_OCTETS, SHUFFLE_QUERIES, Source, Version};

/// Queries that go to a lane at once.
const CHUNK_QUERIES: usize = 512;
/// Room for them, so that chunks seldom grow.
const CHUNK_OCTETS: usize = CHUNK_QUERIES * 64;
/// Chunks that wait for each lane.
const CHUNKS_AHEAD: usize = 16;
/// A lane waits no longer than this for its first chunk.
const FIRST_CHUNK: Duration = Duration::from_secs(5);

/// Opens feeds of a file; every trial reads it from its start.
#[derive(Debug)]
pub(crate) struct FileFeeds {
    source: Source,
    version: Version,
    /// The feeds of the trial that begins, by lane, until they are taken.
    waiting: Mutex<Vec<Option<FileFeed>>>,
}

impl FileFeeds {
    pub fn new(source: Source, version: Version) -> Self {
        Self { source, version, waiting: Mutex::default() }
    }

    fn start(&self, lanes: u64) -> Vec<Option<FileFeed>> {
        let why = Arc::new(Mutex::new(None));
        let (outlets, feeds): (Vec<_>, Vec<_>) = (0..lanes)
            .map(|_| {
                let (full, chunks) = sync_channel(CHUNKS_AHEAD);
                let (used, empty) = sync_channel(CHUNKS_AHEAD + 2);
                let feed = FileFeed {
                    chunks,
                    used,
                    current: Arena::default(),
                    next: 0,
                    over: false,
                    why: Arc::clone(&why),
                };
                (Outlet { full, empty }, Some(feed))
            })
            .unzip();
        let (source, version) = (self.source.clone(), self.version);
        // It ends when the lanes are gone.
        std::thread::spawn(move || {
            let mut reader = Reader::new(&source, outlets);
            if let Err(error) = reader.run(&version) {
                // Before the lanes see that nothing more will come, which dropping the reader tells them.
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
            drop(reader);
        });
        feeds
    }
}

impl Feeds for FileFeeds {
    fn open(&self, lane: u64, lanes: u64) -> Box<dyn Feed> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = |waiting: &mut Vec<Option<FileFeed>>| {
            (waiting.len() as u64 == lanes).then(|| waiting.get_mut(lane as usize)?.take()).flatten()
        };
        let feed = taken(&mut waiting).or_else(|| {
            *waiting = self.start(lanes);
            taken(&mut waiting)
        });
        drop(waiting);
        let mut feed = feed.expect("a lane's number is below that of the lanes");
        if let Ok(chunk) = feed.chunks.recv_timeout(FIRST_CHUNK) {
            feed.current = chunk;
        }
        Box::new(feed)
    }
}

#[derive(Debug)]
struct FileFeed {
    chunks: Receiver<Arena>,
    /// Chunks go back to be filled again.
    used: SyncSender<Arena>,
    current: Arena,
    next: usize,
    over: bool,
    why: Arc<Mutex<Option<String>>>,
}

impl Feed for FileFeed {
    fn ready(&mut self) -> usize {
        if self.next == self.current.len() {
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
        self.current.len() - self.next
    }

    fn next(&mut self) -> Option<&[u8]> {
        let query = self.current.get(self.next)?;
        self.next += 1;
        Some(query)
    }

    fn ended(&mut self) -> Option<String> {
        if !self.over {
            return None;
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(why.unwrap_or_else(|| "the query file could not be read to its end".into()))
    }
}

/// The reader's way to a lane.
struct Outlet {
    full: SyncSender<Arena>,
    empty: Receiver<Arena>,
}

struct Reader<'s> {
    source: &'s Source,
    outlets: Vec<Outlet>,
    /// The lane that gets the next chunk.
    lane: usize,
    chunk: Arena,
    /// Queries that wait to be shuffled.
    window: Arena,
    windows: u64,
}

struct Gone;

impl<'s> Reader<'s> {
    fn new(source: &'s Source, outlets: Vec<Outlet>) -> Self {
        let chunk = Arena::with_capacity(CHUNK_QUERIES, CHUNK_OCTETS);
        Self { source, outlets, lane: 0, chunk, window: Arena::default(), windows: 0 }
    }

    /// Reads the file again and again until the lanes are gone.
    fn run(&mut self, version: &Version) -> Result<(), FileError> {
        let path = &self.source.path;
        loop {
            let file = File::open(path).map_err(|error| FileError::Io(path.clone(), error))?;
            let mut queries = Queries::new(BufReader::with_capacity(READ_OCTETS, file), self.source.format);
            let mut found = false;
            while let Some(query) = queries.next().map_err(|error| FileError::Io(path.clone(), error))? {
                match query {
                    Ok(query) => {
                        found = true;
                        if self.take(&query).is_err() {
                            return Ok(());
                        }
                    }
                    Err(what) if self.source.strict => return Err(FileError::Malformed(path.clone(), what)),
                    Err(_) => {}
                }
            }
            version.check(path)?;
            if !found {
                return Err(FileError::Empty(path.clone(), None));
            }
        }
    }

    fn take(&mut self, query: &[u8]) -> Result<(), Gone> {
        let Some(seed) = self.source.shuffle else { return self.give(query) };
        self.window.push(query);
        if self.window.len() < SHUFFLE_QUERIES {
            return Ok(());
        }
        let window = std::mem::take(&mut self.window);
        let order = shuffled(window.len(), seed.wrapping_add(self.windows));
        self.windows += 1;
        for index in order {
            self.give(window.get(index as usize).unwrap_or_default())?;
        }
        self.window = window;
        self.window.clear();
        Ok(())
    }

    fn give(&mut self, query: &[u8]) -> Result<(), Gone> {
        self.chunk.push(query);
        if self.chunk.len() < CHUNK_QUERIES {
            return Ok(());
        }
        let outlet = &self.outlets[self.lane];
        let mut empty = outlet.empty.try_recv().unwrap_or_default();
        empty.clear();
        let full = std::mem::replace(&mut self.chunk, empty);
        self.lane = (self.lane + 1) % self.outlets.len();
        outlet.full.send(full).map_err(|_| Gone)
    }
}
