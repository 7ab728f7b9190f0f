//! Queries given to the owner, until it answers or forgets them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::budget::Charge;
use crate::lock;

/// After this time a query counts as forgotten, so that an owner's slip costs no memory for ever.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// The end of a query: the answer, or none.
pub(crate) type Outcome = Option<PendingAnswer>;

/// An answer that waits for its client, and counts among what does until it is dropped.
pub(crate) struct PendingAnswer {
    pub octets: Vec<u8>,
    pub charge: Charge,
}

impl AsRef<[u8]> for PendingAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

pub(crate) enum Reply {
    /// To a connection on which many queries wait.
    Connection(mpsc::UnboundedSender<Outcome>),
    /// To the one stream of the query.
    Stream(oneshot::Sender<Outcome>),
}

struct Entry {
    reply: Reply,
    /// Counts the query among those of its connection, also after the client has given it up: a client that
    /// asks and resets the stream over and over has no more queries in progress than others.
    permit: OwnedSemaphorePermit,
    /// Counts what the query takes up.
    charge: Charge,
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
    pub fn begin(&self, reply: Reply, permit: OwnedSemaphorePermit, charge: Charge) -> u64 {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        lock(&self.entries).insert(token, Entry { reply, permit, charge, since: Instant::now() });
        token
    }

    /// Ends a query with an answer or without one. Its client may have gone: then nobody hears of it.
    pub fn end(&self, token: u64, answer: Option<Vec<u8>>) {
        let entry = lock(&self.entries).remove(&token);
        if let Some(entry) = entry {
            entry.end(answer);
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
    fn end(self, answer: Option<Vec<u8>>) {
        let Self { reply, permit, mut charge, .. } = self;
        // First, so that whoever gets the outcome finds room for the next query.
        drop(permit);
        let outcome = answer.map(|octets| {
            charge.resize(octets.len());
            PendingAnswer { octets, charge }
        });
        match reply {
            Reply::Connection(sender) => drop(sender.send(outcome)),
            Reply::Stream(sender) => drop(sender.send(outcome)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::server::usage::Usage;
    use crate::{Limits, Protocol};

    #[tokio::test(start_paused = true)]
    async fn a_lost_query_is_swept_up_and_makes_room() {
        let (pending, pipeline) = (Pending::default(), Arc::new(Semaphore::new(2)));
        let usage = Usage::new(Protocol::Tcp, &Limits::default(), 0);
        let begin = |reply| {
            let charge = Charge::new(&Arc::default(), &usage, 40);
            pending.begin(reply, pipeline.clone().try_acquire_owned().unwrap(), charge)
        };
        let (sender, mut old) = mpsc::unbounded_channel();
        begin(Reply::Connection(sender));
        tokio::time::advance(LIFE_MAX).await;
        let (sender, young) = oneshot::channel();
        let token = begin(Reply::Stream(sender));
        tokio::time::advance(Duration::from_secs(1)).await;
        pending.sweep();
        assert!(matches!(old.recv().await, Some(None)));
        assert_eq!((pipeline.available_permits(), usage.waiting_octets()), (1, 40));
        pending.end(token, Some(vec![7]));
        pending.end(token, None);
        let answer = young.await.unwrap().unwrap();
        assert_eq!((&answer.octets[..], usage.waiting_octets()), (&[7][..], 1));
        drop(answer);
        assert_eq!((pipeline.available_permits(), usage.waiting_octets()), (2, 0));
    }
}
