//! A file that is read while the trial runs, over and over.

use std::fs::File;
use std::io::BufReader;

use engine::workload::{Arena, Feed, Feeds, shuffled};

use super::read::Queries;
use super::{FileError, READ_OCTETS, SHUFFLE_QUERIES, Source, Version};
use crate::feed::{CHUNK_QUERIES, Chunk, Gone, Openings, Outlet};

/// Opens feeds of a file; every trial reads it from its start.
#[derive(Debug)]
pub(crate) struct FileFeeds {
    source: Source,
    version: Version,
    openings: Openings,
}

impl FileFeeds {
    pub fn new(source: Source, version: Version) -> Self {
        Self { source, version, openings: Openings::new() }
    }
}

impl Feeds for FileFeeds {
    fn open(&self, lane: u64, lanes: u64) -> Box<dyn Feed> {
        let (source, version) = (self.source.clone(), self.version);
        self.openings.open(lane, lanes, move |outlets| {
            Reader::new(&source, outlets).run(&version).map_err(|error| error.to_string())
        })
    }
}

struct Reader<'s> {
    source: &'s Source,
    outlets: &'s [Outlet],
    /// The lane that gets the next chunk.
    lane: usize,
    chunk: Chunk,
    /// Queries that wait to be shuffled.
    window: Arena,
    windows: u64,
}

impl<'s> Reader<'s> {
    fn new(source: &'s Source, outlets: &'s [Outlet]) -> Self {
        Self { source, outlets, lane: 0, chunk: Chunk::default(), window: Arena::default(), windows: 0 }
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
        self.chunk.queries.push(query);
        if self.chunk.queries.len() < CHUNK_QUERIES {
            return Ok(());
        }
        let outlet = &self.outlets[self.lane];
        self.lane = (self.lane + 1) % self.outlets.len();
        outlet.give(&mut self.chunk)
    }
}
