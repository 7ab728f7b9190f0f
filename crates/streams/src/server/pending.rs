//! Queries given to the owner, until it answers or forgets them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::lock;

/// After this time a query counts as forgotten, so that an owner's slip costs no memory for ever.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// The end of a query: the answer, or none.
pub(crate) type Outcome = Option<Vec<u8>>;

/// Where the outcome goes.
pub(crate) enum Reply {
    /// To a connection on which many queries wait.
    Connection(mpsc::UnboundedSender<Outcome>),
    /// To the one stream of the query.
    Stream(oneshot::Sender<Outcome>),
}

struct Entry {
    reply: Reply,
    /// Counts the query among those of its connection, also after the client has given it up: a client that asks and
    /// resets the stream over and over has no more queries in progress than others.
    permit: OwnedSemaphorePermit,
    since: Instant,
}

/// The queries the owner has.
#[derive(Default)]
pub(crate) struct Pending {
    entries: Mutex<HashMap<u64, Entry>>,
    next_token: AtomicU64,
}

impl Pending {
    /// Remembers a query and gives it a token.
    pub fn begin(&self, reply: Reply, permit: OwnedSemaphorePermit) -> u64 {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        lock(&self.entries).insert(token, Entry { reply, permit, since: Instant::now() });
        token
    }

    /// Ends a query. Its client may have gone: then nobody hears of it.
    pub fn end(&self, token: u64, outcome: Outcome) {
        let entry = lock(&self.entries).remove(&token);
        if let Some(entry) = entry {
            entry.end(outcome);
        }
    }

    /// Ends the queries that the owner seems to have lost.
    pub fn sweep(&self) {
        let mut entries = lock(&self.entries);
        let lost: Vec<u64> = entries
            .iter()
            .filter(|(_, entry)| entry.since.elapsed() > LIFE_MAX)
            .map(|(&token, _)| token)
            .collect();
        let lost: Vec<Entry> = lost.iter().filter_map(|token| entries.remove(token)).collect();
        drop(entries);
        lost.into_iter().for_each(|entry| entry.end(None));
    }
}

impl Entry {
    fn end(self, outcome: Outcome) {
        // First, so that whoever gets the outcome finds room for the next query.
        drop(self.permit);
        match self.reply {
            Reply::Connection(sender) => drop(sender.send(outcome)),
            Reply::Stream(sender) => drop(sender.send(outcome)),
        }
    }
}
