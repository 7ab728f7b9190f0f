//! The side thread, and the channels into it.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use streams::{Answer, NoAnswer, Pulse, Upstream, UpstreamError};
use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::counts::Tally;
use crate::server::Server;
use crate::way::UpstreamClients;
use crate::{Anchors, Counts, lock};

/// The name of the side thread.
const THREAD: &str = "dns64d-validation";

/// Questions in progress at most; further ones are told at once that there is no room.
const IN_FLIGHT_MAX: usize = 4096;

/// How many lists of upstream servers can be asked: the one in force and the one before.
const GENERATIONS: usize = 2;

struct Context {
    on_answer: Box<dyn Fn(Answer) + Send + Sync>,
    generations: Mutex<Vec<(u64, Vec<Arc<Server>>)>>,
    in_flight: Semaphore,
    tally: Arc<Tally>,
}

/// The side thread with all it has learnt. Dropping it ends it.
pub struct Validation {
    handle: Handle,
    ways: UpstreamClients,
    pulse: Pulse,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Validation {
    /// Starts the thread, without upstream servers. `on_answer` runs on that thread, once for every
    /// [`Handle::ask`], and must be short.
    ///
    /// # Errors
    /// The thread or its event loop cannot be made.
    pub fn start(on_answer: impl Fn(Answer) + Send + Sync + 'static) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let room = Context {
            on_answer: Box::new(on_answer),
            generations: Mutex::default(),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
            tally: Arc::default(),
        };
        let ways = UpstreamClients::start()?;
        let handle = Handle { room: Arc::new(room), runtime: runtime.handle().clone() };
        let (end, ended) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || run(runtime, ended))?;
        Ok(Self { handle, ways, pulse: Pulse::new(THREAD), end: Some((end, thread)) })
    }

    /// What other threads hold to ask.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Gives the upstream servers that questions of `generation` name by their index, and the keys that are
    /// trusted. The generation before stays, older ones go.
    ///
    /// # Errors
    /// A name that no certificate can have, or a path that no URI can have. Nothing has changed then.
    pub fn set_upstreams(
        &self,
        generation: u64,
        upstreams: Vec<Upstream>,
        anchors: &Anchors,
    ) -> Result<(), UpstreamError> {
        let tally = &self.handle.room.tally;
        let server =
            |index| Arc::new(Server::new(self.ways.to(generation, index), anchors.clone(), tally.clone()));
        let servers = (0..upstreams.len()).map(server).collect();
        self.ways.set(generation, upstreams)?;
        let mut generations = lock(&self.handle.room.generations);
        generations.retain(|(number, _)| *number != generation);
        generations.push((generation, servers));
        let surplus = generations.len().saturating_sub(GENERATIONS);
        generations.drain(..surplus);
        Ok(())
    }

    /// Asks the threads of the validation for a sign of life, and returns the names of those that have given
    /// none since they were last asked.
    pub fn silent_threads(&self) -> Vec<String> {
        let runtime = &self.handle.runtime;
        let is_silent = self.pulse.is_silent(|pulse| drop(runtime.spawn(async move { pulse.answer() })));
        let own = is_silent.then(|| THREAD.to_owned());
        own.into_iter().chain(self.ways.silent_threads()).collect()
    }

    /// All counters as they stand.
    pub fn counts(&self) -> Counts {
        self.handle.room.tally.copy()
    }

    /// Ends all questions and waits for the thread. Handles that still exist do nothing from then on.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        let Some((end, thread)) = self.end.take() else { return };
        // Neither can fail but when the thread has ended by itself.
        let _ = end.send(());
        let _ = thread.join();
    }
}

/// The whole life of the side thread.
fn run(runtime: Runtime, ended: oneshot::Receiver<()>) {
    // That the other end is gone is an end, too.
    let _ = runtime.block_on(ended);
    runtime.shutdown_background();
}

/// What a worker holds: it asks upstream servers, from any thread and without waiting.
#[derive(Clone)]
pub struct Handle {
    room: Arc<Context>,
    runtime: runtime::Handle,
}

impl Handle {
    /// Asks the upstream server with this index in this generation. One [`Answer`] with `token` follows,
    /// within `timeout`; it has no message where there is no answer, no verdict or no room.
    ///
    /// The message has the ID and the question of `query`, DNSSEC records if that has DO, and AD if it is
    /// secure (RFC 4035 3.2.3). A bogus one is SERVFAIL with an extended error: 7 (expired), 8 (not yet
    /// valid), 9 (no DNSKEY), 10 (no RRSIG), 12 (no NSEC) or 6 (all else).
    pub fn ask(&self, generation: u64, upstream: usize, token: u64, query: Vec<u8>, timeout: Duration) {
        let room = self.room.clone();
        self.runtime.spawn(async move {
            room.tally.asked.add();
            // A task of its own: if it panics, there still is an answer.
            let judged = tokio::spawn(room.clone().ask(generation, upstream, query, timeout)).await;
            let octets = judged.unwrap_or(Err(NoAnswer::Lost));
            if octets.is_err() {
                room.tally.failures.add();
            }
            (room.on_answer)(Answer { token, octets });
        });
    }
}

impl Context {
    async fn ask(
        self: Arc<Self>,
        generation: u64,
        upstream: usize,
        query: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let _permit = self.in_flight.try_acquire().map_err(|_| NoAnswer::Full)?;
        let server = self.find(generation, upstream).ok_or(NoAnswer::Lost)?;
        timeout(limit, server.ask(&query, limit)).await.ok().flatten().ok_or(NoAnswer::Lost)
    }

    fn find(&self, generation: u64, upstream: usize) -> Option<Arc<Server>> {
        let generations = lock(&self.generations);
        let (_, servers) = generations.iter().find(|(number, _)| *number == generation)?;
        servers.get(upstream).cloned()
    }
}
