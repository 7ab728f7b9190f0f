//! What the AuthDNS sees of the server under test: a bounded list of its queries.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dns64::wire::HEADER_LENGTH;
use record::identifiers::{Analysis, Seen, analyse};
use record::random::mix;

use super::query::Query;
use super::zone::Transport;

/// Queries kept unless told otherwise: 32 MB.
pub const OBSERVED_QUERIES: usize = 1_000_000;
/// Queries for which a thread takes memory at once.
const CHUNK_QUERIES: usize = 4096;
/// The prime of the 64-bit FNV hash.
const HASH_FACTOR: u64 = 0x0000_0100_0000_01b3;

/// Collects the queries that several threads see. The first ones are kept, up to a bound; later ones are only
/// counted.
#[derive(Debug)]
pub struct Observer {
    capacity: usize,
    /// Queries for which no thread has taken memory.
    room: AtomicUsize,
    watching: AtomicBool,
    stores: Mutex<Vec<Arc<Mutex<Store>>>>,
}

#[derive(Debug, Default)]
struct Store {
    chunks: Vec<Vec<Seen>>,
    seen: u64,
}

/// What all threads have seen.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The queries that were kept, in the order of their arrival.
    pub queries: Vec<Seen>,
    /// All queries seen: kept or only counted.
    pub seen: u64,
}

impl Observation {
    /// What the queries say; `client_queries` is how many were put to the server under test, where that is
    /// known.
    pub fn analyse(&self, client_queries: Option<u64>) -> Analysis {
        analyse(&self.queries, self.seen, client_queries)
    }
}

impl Observer {
    /// Keeps up to `capacity` queries. It watches from now on.
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            room: AtomicUsize::new(capacity),
            watching: AtomicBool::new(true),
            stores: Mutex::default(),
        })
    }

    /// The same, and looks away until it is told to watch.
    pub fn asleep(capacity: usize) -> Arc<Self> {
        let observer = Self::new(capacity);
        observer.watch(false);
        observer
    }

    /// How many queries it keeps.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Watches or looks away.
    pub fn watch(&self, watching: bool) {
        self.watching.store(watching, Ordering::Relaxed);
    }

    /// Whether it keeps what it sees.
    pub fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    /// Takes what was seen, and begins anew.
    pub fn take(&self) -> Observation {
        let mut observation = Observation::default();
        for store in self.stores.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Store { chunks, seen } = std::mem::take(&mut *lock(store));
            observation.queries.extend(chunks.into_iter().flatten());
            observation.seen += seen;
        }
        self.room.store(self.capacity, Ordering::Relaxed);
        // Stable: those of one thread and one reading of the clock keep their order.
        observation.queries.sort_by_key(|query| query.at_ns);
        observation
    }

    /// What one thread notes with.
    pub(super) fn recorder(self: &Arc<Self>) -> Recorder {
        let store = Arc::<Mutex<Store>>::default();
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
        Recorder { observer: self.clone(), store }
    }

    /// Room for some more queries, if there is any.
    fn chunk(&self) -> Option<Vec<Seen>> {
        let take = |room: usize| (room > 0).then(|| room - room.min(CHUNK_QUERIES));
        let before = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Vec::with_capacity(before.min(CHUNK_QUERIES)))
    }
}

fn lock(store: &Mutex<Store>) -> std::sync::MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hand of one thread. Its lock is taken by nobody else but at the end.
#[derive(Debug)]
pub(super) struct Recorder {
    observer: Arc<Observer>,
    store: Arc<Mutex<Store>>,
}

impl Recorder {
    /// Whether there is anything to note.
    pub(crate) fn is_watching(&self) -> bool {
        self.observer.is_watching()
    }

    /// Notes a query, if the observer watches.
    pub fn note(&mut self, query: &Query<'_>) {
        if !self.is_watching() {
            return;
        }
        let mut store = lock(&self.store);
        store.seen += 1;
        if store.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
            let Some(chunk) = self.observer.chunk() else { return };
            store.chunks.push(chunk);
        }
        if let Some(chunk) = store.chunks.last_mut() {
            chunk.push(read(query));
        }
    }
}

fn read(query: &Query<'_>) -> Seen {
    let id = query.octets.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let name = QueryName::read(query.octets.get(HEADER_LENGTH..).unwrap_or_default());
    Seen {
        at_ns: query.arrived_ns,
        name: name.hash,
        client: client_hash(query.from),
        upper_case: name.upper_case,
        port: query.from.port(),
        id,
        qtype: name.qtype,
        tcp: query.transport != Transport::Udp,
        letters: name.letters,
    }
}

/// What is kept of a question.
#[derive(Default)]
struct QueryName {
    hash: u64,
    upper_case: u32,
    qtype: u16,
    letters: u8,
}

impl QueryName {
    /// Reads QNAME and QTYPE; nothing of them counts where they are cut off.
    fn read(question: &[u8]) -> Self {
        let mut name = Self::default();
        let mut at = 0;
        while let Some(&length) = question.get(at).filter(|length| **length != 0) {
            at += usize::from(length) + 1;
        }
        let Some(&[high, low]) = question.get(at + 1..).and_then(|rest| rest.first_chunk()) else {
            return name;
        };
        name.qtype = u16::from_be_bytes([high, low]);
        for (index, octet) in question[..at].iter().enumerate() {
            name.hash = (name.hash ^ u64::from(octet.to_ascii_lowercase())).wrapping_mul(HASH_FACTOR);
            name.letters = name.letters.saturating_add(u8::from(octet.is_ascii_alphabetic()));
            name.upper_case |= u32::from(octet.is_ascii_uppercase()).checked_shl(index as u32).unwrap_or(0);
        }
        name.hash = mix(name.hash.wrapping_add(HASH_FACTOR));
        name
    }
}

fn client_hash(client: SocketAddr) -> u32 {
    let bits = match client.ip() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    (mix(bits as u64 ^ mix((bits >> 64) as u64)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(number: u16) -> Vec<u8> {
        let mut query = number.to_be_bytes().to_vec();
        query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend(b"\x03wWw\x04Test\0\0\x1c\0\x01");
        query
    }

    fn note(recorder: &mut Recorder, octets: &[u8], arrived_ns: u64) {
        let from = "[2001:db8::1]:4711".parse().unwrap();
        recorder.note(&Query { octets, from, transport: Transport::Udp, arrived_ns });
    }

    #[test]
    fn queries_of_all_threads_are_kept_in_order_up_to_the_bound() {
        let observer = Observer::new(10);
        let [mut one, mut other] = [observer.recorder(), observer.recorder()];
        for number in 0..6 {
            note(&mut one, &query(number), 2 * u64::from(number));
        }
        note(&mut other, &query(9), 3);
        let first = observer.take();
        // The first thread has taken all the room.
        assert_eq!(first.queries.iter().map(|query| query.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(first.seen, 7);

        observer.watch(false);
        note(&mut one, &query(1), 1);
        observer.watch(true);
        for number in 0..20 {
            note(&mut other, &query(number), number.into());
        }
        let second = observer.take();
        assert_eq!((second.queries.len(), second.seen), (10, 20), "the room is free again");
    }

    #[test]
    fn what_is_kept_of_a_query() {
        let observer = Observer::new(10);
        let mut recorder = observer.recorder();
        note(&mut recorder, &query(7), 1);
        note(&mut recorder, &query(7).to_ascii_lowercase(), 2);
        note(&mut recorder, &query(7)[..20], 3);
        note(&mut recorder, &[1], 4);
        let [mixed, lower, cut, nothing] = observer.take().queries.try_into().unwrap();
        assert_eq!((mixed.id, mixed.port, mixed.qtype, mixed.letters, mixed.tcp), (7, 4711, 28, 7, false));
        assert_eq!((mixed.upper_case, lower.upper_case), (1 << 2 | 1 << 5, 0));
        assert_eq!((mixed.name, mixed.client), (lower.name, lower.client));
        assert_eq!((cut.id, cut.name, cut.qtype, nothing.id, nothing.name), (7, 0, 0, 0, 0));
    }
}
