//! Gives each lane the queries of its clients.

use engine::pacer::Recorded;
use engine::workload::Stamp;

use super::octets::Octets;
use super::{CUT, ReplayError, Source, each};
use crate::feed::{CHUNK_QUERIES, Chunk, Gone, Outlet};

/// Fills a chunk for each lane.
pub(super) struct Distributor<'o> {
    outlets: &'o [Outlet],
    chunks: Vec<Chunk>,
}

impl<'o> Distributor<'o> {
    pub fn new(outlets: &'o [Outlet]) -> Self {
        Self { outlets, chunks: outlets.iter().map(|_| Chunk::default()).collect() }
    }

    /// Reads the recording to the end of the trial, or until the lanes are gone.
    pub fn run(&mut self, octets: &Octets, source: &Source, numbers: &[u32]) -> Result<(), ReplayError> {
        let lanes = self.outlets.len() as u64;
        let (mut gone, mut taken) = (false, 0usize);
        each(octets, source, &mut |_, after_ns, entry| {
            let client = numbers.get(entry.client as usize).copied().unwrap_or(CUT);
            if client == CUT || gone {
                return Ok(());
            }
            let (lane, socket) = Recorded::place(client, lanes);
            let chunk = &mut self.chunks[lane as usize];
            chunk.queries.push(entry.message);
            chunk.stamps.push(Stamp { after_ns, socket });
            taken += 1;
            // All lanes at once: a lane of few queries need not wait until the other lanes have made room.
            if taken.is_multiple_of(CHUNK_QUERIES) {
                gone = self.give_all().is_err();
            }
            Ok(())
        })?;
        // A lane that wants no more has gone.
        let _ = self.give_all();
        octets.check()
    }

    fn give_all(&mut self) -> Result<(), Gone> {
        for (outlet, chunk) in self.outlets.iter().zip(&mut self.chunks) {
            if !chunk.queries.is_empty() {
                outlet.give(chunk)?;
            }
        }
        Ok(())
    }
}
