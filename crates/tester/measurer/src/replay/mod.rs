//! The queries of a capture, asked again at their times by as many clients.
//!
//! A pcap or pcapng file is converted in memory before the trial ([`capture::convert`]); a file that was
//! converted already is read from disk while the trial runs, and may be larger than memory. Either is read
//! through once before: for the counts that a schedule needs ([`Recorded`]), and to find what is wrong with
//! it.

mod error;
mod octets;
mod reader;

use std::path::PathBuf;
use std::sync::Arc;

use capture::compact::{Entry, Reader};
use engine::pacer::{Counts, Recorded};
use engine::workload::question::check_request;
use engine::workload::{Feed, Feeds, Recording};
use record::{Replay, random};

use crate::feed::Openings;
use octets::Octets;
use reader::Distributor;

pub use error::ReplayError;
pub use octets::{WHOLE_OCTETS_MAX, is_recording};

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct Source {
    /// A pcap or pcapng file, or what [`capture::convert`] made of one; `-`: a pcap or pcapng file on
    /// standard input.
    pub path: PathBuf,
    /// So many times as fast, above 0.
    pub speed: f64,
    /// Queries are taken that are due before this, in ns after the start.
    pub duration_ns: u64,
    /// The queries of so many clients; `None`: of all.
    pub clients: Option<u32>,
    /// Which clients these are.
    pub seed: u64,
    /// A capture that cannot be read to its end is an error.
    pub strict: bool,
}

/// A replay that can begin.
#[derive(Debug)]
pub struct Loaded {
    /// The queries, for the workload.
    pub recording: Recording,
    /// Their counts, for the schedule.
    pub recorded: Recorded,
    /// What it is, for the record.
    pub told: Replay,
}

/// Clients of the capture that do not ask, and those that have not asked yet.
const CUT: u32 = u32::MAX;
const UNSEEN: u32 = u32::MAX - 1;

/// Reads the capture through.
///
/// # Errors
/// [`ReplayError`].
pub fn load(source: &Source) -> Result<Loaded, ReplayError> {
    let (octets, stopped) = Octets::open(source)?;
    let header = *octets.reader()?.header();
    let mut numbers = vec![UNSEEN; header.clients as usize];
    if let Some(clients) = source.clients {
        cut(&octets, source, clients as usize, &mut numbers)?;
    }
    let (mut counts, mut next) = (Counts::default(), 0);
    each(&octets, source, &mut |number, after_ns, entry| {
        check_request(entry.message)
            .map_err(|reason| ReplayError::Unaskable(source.path.clone(), number, reason.into_owned()))?;
        let client = &mut numbers[entry.client as usize];
        if *client == UNSEEN {
            *client = next;
            next += 1;
        }
        if *client != CUT {
            counts.note(after_ns, *client);
        }
        Ok(())
    })?;
    octets.check()?;
    let recorded = Recorded::new(counts).ok_or_else(|| ReplayError::Empty(source.path.clone()))?;
    let told = Replay {
        source: source.path.display().to_string(),
        recorded_queries: header.queries,
        recorded_clients: header.clients,
        recorded_s: header.length_ns as f64 / 1e9,
        speed: source.speed,
        clients: recorded.clients(),
        left_out: header.left_out.iter().map(|(why, count)| (why.as_str().to_owned(), count)).collect(),
        stopped: stopped.map(|stopped| stopped.to_string()),
    };
    let feeds =
        RecordedFeeds { octets, source: source.clone(), numbers: numbers.into(), openings: Openings::new() };
    Ok(Loaded { recording: Recording::Stream(Arc::new(feeds)), recorded, told })
}

/// Hands over each query that is due before the end, counted from 1, with the time in ns after the start at
/// which it is due.
fn each(
    octets: &Octets,
    source: &Source,
    take: &mut dyn FnMut(u64, u64, &Entry<'_>) -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    let mut reader = octets.reader()?;
    let mut number = 0;
    while let Some(entry) = reader.next_entry().map_err(|error| octets.explain(error))? {
        let after_ns = after_ns(entry.time_ns, source.speed);
        if after_ns >= source.duration_ns {
            break;
        }
        number += 1;
        take(number, after_ns, &entry)?;
    }
    Ok(())
}

/// When a query is due at a speed. Whole ns are exact in recordings of 100 days.
fn after_ns(time_ns: u64, speed: f64) -> u64 {
    if speed == 1.0 { time_ns } else { (time_ns as f64 / speed) as u64 }
}

/// Leaves so many of the clients that ask, drawn by the seed, and marks the others.
fn cut(octets: &Octets, source: &Source, clients: usize, numbers: &mut [u32]) -> Result<(), ReplayError> {
    let mut asks = vec![false; numbers.len()];
    each(octets, source, &mut |_, _, entry| {
        asks[entry.client as usize] = true;
        Ok(())
    })?;
    let mut drawn: Vec<usize> = (0..asks.len()).filter(|&client| asks[client]).collect();
    drawn.sort_by_cached_key(|&client| random::at(source.seed, CLIENTS_STREAM, client as u64));
    for &client in drawn.iter().skip(clients) {
        numbers[client] = CUT;
    }
    Ok(())
}

/// The stream of random numbers that clients are drawn by.
const CLIENTS_STREAM: u64 = 0xc11e;

/// Opens feeds of a recording; every trial reads it from its start.
#[derive(Debug)]
struct RecordedFeeds {
    octets: Octets,
    source: Source,
    /// The number of each client of the capture among those of the trial.
    numbers: Arc<[u32]>,
    openings: Openings,
}

impl Feeds for RecordedFeeds {
    fn open(&self, lane: u64, lanes: u64) -> Box<dyn Feed> {
        let (octets, source, numbers) = (self.octets.clone(), self.source.clone(), Arc::clone(&self.numbers));
        self.openings.open(lane, lanes, move |outlets| {
            let mut distributor = Distributor::new(outlets);
            distributor.run(&octets, &source, &numbers).map_err(|error| error.to_string())
        })
    }
}

/// A reader of a compact file wherever it lies.
type AnyReader<'o> = Reader<Box<dyn std::io::Read + Send + 'o>>;

#[cfg(test)]
mod tests;
