//! Recorded queries of which each has its instant and its client, from a file that may be larger than memory:
//! what is known of them before a trial.

use super::SECOND_NS;

/// The length of the windows in which queries are counted, in ns.
const WINDOW_NS: u64 = 10_000_000;

/// Counts of the queries that a trial will ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries of each client.
    by_client: Vec<u64>,
    /// Queries that are due in each window from the start.
    by_window: Vec<u32>,
    /// When the last is due, in ns after the start.
    last_ns: u64,
}

impl Counts {
    /// Counts a query that is due so long after the start. Clients are numbered from 0 without gaps; those of
    /// later first queries may have any later number.
    pub fn note(&mut self, after_ns: u64, client: u32) {
        let (window, client) = ((after_ns / WINDOW_NS) as usize, client as usize);
        if self.by_window.len() <= window {
            self.by_window.resize(window + 1, 0);
        }
        if self.by_client.len() <= client {
            self.by_client.resize(client + 1, 0);
        }
        self.by_window[window] = self.by_window[window].saturating_add(1);
        self.by_client[client] += 1;
        self.last_ns = self.last_ns.max(after_ns);
    }
}

/// Recorded queries by their counts. A schedule is copied into every lane, so the counts live as long as the
/// program.
#[derive(Clone, Copy, Debug)]
pub struct Recorded(&'static Counts);

impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Recorded {}

impl Recorded {
    /// Keeps the counts of all queries that the trial will ask; `None` if there are none.
    pub fn new(counts: Counts) -> Option<Self> {
        (!counts.by_client.is_empty()).then(|| Self(Box::leak(Box::new(counts))))
    }

    /// How many clients ask.
    pub fn clients(self) -> u64 {
        self.0.by_client.len() as u64
    }

    /// The lane of a client, and its socket within the lane.
    pub fn place(client: u32, lanes: u64) -> (u64, u32) {
        let (client, lanes) = (u64::from(client), lanes.max(1));
        (client % lanes, (client / lanes) as u32)
    }

    /// Sockets of all lanes together: a socket for each client, and as many in each lane.
    pub fn sockets(self, lanes: u64) -> u64 {
        self.clients().next_multiple_of(lanes.max(1))
    }

    /// All queries.
    pub fn queries(self) -> u64 {
        self.0.by_client.iter().sum()
    }

    /// The queries of a lane.
    pub(crate) fn queries_of(self, lane: u64, lanes: u64) -> u64 {
        self.0.by_client.iter().skip(lane as usize).step_by(lanes.max(1) as usize).sum()
    }

    /// How long they last: the last one is just within.
    pub(super) fn length_ns(self) -> u64 {
        self.0.last_ns.saturating_add(1)
    }

    /// The most within any span of so many ns, or somewhat more.
    pub(super) fn most_within(self, span_ns: u64) -> u64 {
        // A span touches one window more than it has the length of.
        let windows = usize::try_from(span_ns.div_ceil(WINDOW_NS)).unwrap_or(usize::MAX).saturating_add(1);
        let (mut within, mut most) = (0, 0);
        for (index, &count) in self.0.by_window.iter().enumerate() {
            within += u64::from(count);
            if let Some(before) = index.checked_sub(windows) {
                within -= u64::from(self.0.by_window[before]);
            }
            most = most.max(within);
        }
        most
    }

    /// The most within any second, or somewhat more.
    pub(super) fn peak_qps(self) -> u64 {
        self.most_within(SECOND_NS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_add_up_whatever_the_lanes_are(
            rows in prop::collection::vec((0u64..3 * SECOND_NS, 0u32..30), 1..200), lanes in 1u64..7,
            span_ns in 0u64..2 * SECOND_NS,
        ) {
            let mut counts = Counts::default();
            rows.iter().for_each(|(after_ns, client)| counts.note(*after_ns, *client));
            let recorded = Recorded::new(counts).unwrap();
            prop_assert_eq!(recorded.queries(), rows.len() as u64);
            for lane in 0..lanes {
                let own = rows.iter().filter(|(_, client)| Recorded::place(*client, lanes).0 == lane);
                prop_assert_eq!(recorded.queries_of(lane, lanes), own.clone().count() as u64);
                let highest = own.map(|(_, client)| Recorded::place(*client, lanes).1).max().unwrap_or(0);
                prop_assert!(u64::from(highest) < recorded.sockets(lanes) / lanes);
            }
            let from = |first: u64| rows.iter().filter(|row| (first..=first + span_ns).contains(&row.0)).count();
            let most = rows.iter().map(|row| from(row.0)).max().unwrap() as u64;
            prop_assert!((most..=rows.len() as u64).contains(&recorded.most_within(span_ns)));
            prop_assert_eq!(recorded.length_ns(), rows.iter().map(|row| row.0).max().unwrap() + 1);
        }
    }

    #[test]
    fn nothing_is_no_recording() {
        assert!(Recorded::new(Counts::default()).is_none());
    }
}
