//! The list of all queries with the result of each: kept only on request, allocated before the trial, never
//! enlarged.

/// What became of a query. Each ends in exactly one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Never written: the trial was cut short or the Tester gave up.
    #[default]
    Unsent,
    /// The kernel refused to send it. Of the queries handed over with one call it is known how many were
    /// refused, not which: the last ones are taken for them.
    SendError,
    /// Sent, and never answered while the trial listened.
    Lost,
    /// Answered in time, as expected.
    Valid,
    /// Answered in time, but wrong.
    Invalid,
    /// Answered after the timeout.
    Late,
}

/// One query. Instants are on the clock of the lane's caller, in ns; 0 where there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it was due; in a closed loop, when it was sent.
    pub scheduled_ns: u64,
    /// When it was written, just before the kernel took it.
    pub sent_ns: u64,
    /// When its first answer arrived.
    pub received_ns: u64,
    /// How the query ended: answered, late, lost.
    pub class: Class,
    /// The RCODE of its first answer, 0 to 15; 0 also where there was none.
    pub rcode: u8,
    /// Its first answer counts by dns64perf++'s rule, whenever it came: NOERROR and any answer record.
    pub compat: bool,
}

/// The queries of a trial, by their number.
///
/// A lane fills a log of its own; [`QueryLog::merge`] joins those of all lanes without moving an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryLog {
    /// The number of lanes that share the queries.
    lanes: u64,
    /// Lane and entries, sorted by lane.
    parts: Vec<(u64, Box<[Entry]>)>,
}

impl QueryLog {
    /// An empty log for `queries` queries of lane `lane` (from 0) of `lanes` (at least 1). All memory is
    /// taken here.
    pub fn new(lane: u64, lanes: u64, queries: u64) -> Self {
        let entries = vec![Entry::default(); queries as usize].into_boxed_slice();
        Self { lanes: lanes.max(1), parts: vec![(lane, entries)] }
    }

    /// The memory of a log, in octets.
    pub fn memory_octets(queries: u64) -> u64 {
        queries.saturating_mul(size_of::<Entry>() as u64)
    }

    /// The entry of query `own` of the only lane.
    pub fn entry_mut(&mut self, own: u64) -> Option<&mut Entry> {
        self.parts.first_mut()?.1.get_mut(own as usize)
    }

    /// Adds the log of another lane of the same trial.
    pub fn merge(&mut self, other: Self) {
        self.lanes = self.lanes.max(other.lanes);
        self.parts.extend(other.parts);
        self.parts.sort_by_key(|(lane, _)| *lane);
    }

    /// The entry of query `n` of the trial.
    pub fn get(&self, n: u64) -> Option<&Entry> {
        let lane = n.checked_rem(self.lanes)?;
        let (_, entries) = self.parts.iter().find(|(of, _)| *of == lane)?;
        entries.get((n / self.lanes) as usize)
    }

    /// The number of queries, sent or not.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, entries)| entries.len() as u64).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number and entry of every query in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let rows = self.parts.iter().map(|(_, entries)| entries.len() as u64).max().unwrap_or(0);
        (0..rows).flat_map(move |row| {
            self.parts.iter().filter_map(move |(lane, entries)| {
                entries.get(row as usize).map(|entry| (row * self.lanes + lane, entry))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_join_in_the_order_of_the_numbers() {
        let lane = |lane: u64, queries: u64| {
            let mut log = QueryLog::new(lane, 3, queries);
            for own in 0..queries {
                log.entry_mut(own).unwrap().scheduled_ns = own * 3 + lane;
            }
            log
        };
        let mut log = QueryLog::default();
        assert!(log.is_empty() && log.get(0).is_none());
        for part in [lane(2, 2), lane(0, 3), lane(1, 2)] {
            log.merge(part);
        }
        assert_eq!(log.len(), 7);
        let seen: Vec<_> = log.iter().map(|(n, entry)| (n, entry.scheduled_ns)).collect();
        assert_eq!(seen, (0..7).map(|n| (n, n)).collect::<Vec<_>>());
        assert_eq!(log.get(5).unwrap().scheduled_ns, 5);
        assert_eq!(log.get(7), None);
    }
}
