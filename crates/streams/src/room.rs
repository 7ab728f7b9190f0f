//! The side threads, and the channels into them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;

use crate::client::Generations;
use crate::counts::Tally;
use crate::server::{ClientConnections, Context, ListenError, Pending, Servers};
use crate::tls::Certificates;
use crate::{Answer, Counts, Gate, Limits, Listener, Pulse, Query, ServerTls, Upstream, UpstreamError};

/// How often connections that are idle for too long are looked for.
const IDLE_CHECK_EVERY: Duration = Duration::from_secs(1);

/// How often forgotten queries are looked for, in checks of idle connections.
const CHECKS_TO_SWEEP: u32 = 10;

/// How long the end waits for QUIC peers to be told of it.
const FAREWELL: Duration = Duration::from_millis(100);

/// The side threads with all their listeners and connections. Dropping it ends them.
pub struct Streams {
    handle: Handle,
    servers: Servers,
    threads: Vec<SideThread>,
}

/// A thread with an event loop of its own.
struct SideThread {
    pulse: Pulse,
    runtime: runtime::Handle,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Streams {
    /// Starts the threads, without listeners and upstream servers: `client_threads` that serve clients, and
    /// one that asks upstream servers, so that no client delays an answer from upstream. The names of the
    /// threads begin with `name`.
    ///
    /// The callbacks run on these threads and must be short: they hand the message on and return. `on_query`
    /// is called for every message of a client, `on_answer` once for every [`Handle::ask`].
    ///
    /// # Errors
    /// A thread or its event loop cannot be made.
    pub fn start(
        name: &str,
        client_threads: usize,
        on_query: impl Fn(Query) + Send + Sync + 'static,
        on_answer: impl Fn(Answer) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let room = Arc::new(Context {
            on_query: Box::new(on_query),
            on_answer: Box::new(on_answer),
            pending: Pending::default(),
            guests: ClientConnections::new(),
            tally: Tally::default(),
        });
        let of_clients =
            |number| SideThread::start(format!("{name}-client-{number}"), std::future::pending());
        let mut threads = (0..client_threads).map(of_clients).collect::<io::Result<Vec<_>>>()?;
        let loops = threads.iter().map(|thread| thread.runtime.clone()).collect();
        let asking = SideThread::start(format!("{name}-streams"), tidy(room.clone()))?;
        let upstreams = Arc::new(Generations::new(room.tally.upstreams.clone()));
        let handle = Handle { room, upstreams, runtime: asking.runtime.clone() };
        threads.push(asking);
        Ok(Self { handle, servers: Servers::new(Arc::new(Certificates::default()), loops), threads })
    }

    /// Asks every thread for a sign of life, and returns the names of those that have given none since they
    /// were last asked.
    pub fn silent_threads(&self) -> Vec<String> {
        let silent = self.threads.iter().filter(|thread| thread.is_silent());
        silent.map(|thread| thread.pulse.thread().to_owned()).collect()
    }

    /// Sets who may connect from now on; without a call everybody may. Connections that there are go on.
    pub fn set_gate(&self, gate: Arc<dyn Gate>) {
        self.handle.room.guests.set_gate(gate);
    }

    /// What other threads hold to answer and to ask.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Replaces the listeners, at once or, on an error, not at all. Listeners that are not among the new ones
    /// accept no more; their connections, and those above new limits, end when they are idle.
    ///
    /// `tls` is the certificate that all handshakes show from now on; `None` leaves the one before. Running
    /// connections go on.
    ///
    /// # Errors
    /// A socket of the wrong kind or that cannot be used, one to be kept that is not there, or a listener
    /// that needs a certificate where none was ever given; any listener where no thread serves clients.
    pub fn listen(
        &self,
        listeners: Vec<Listener>,
        tls: Option<ServerTls>,
        limits: Limits,
    ) -> Result<(), ListenError> {
        self.servers.replace(&self.handle.room, listeners, tls, limits)
    }

    /// Gives the upstream servers that questions of `generation` name by their index. The generation before
    /// stays, so that those who have not yet learnt of the new one can still ask; older ones go.
    ///
    /// # Errors
    /// A name that no certificate can have, or a path that no URI can have. Nothing has changed then.
    pub fn set_upstreams(&self, generation: u64, upstreams: Vec<Upstream>) -> Result<(), UpstreamError> {
        self.handle.upstreams.add(generation, upstreams)
    }

    /// All counters as they stand.
    pub fn counts(&self) -> Counts {
        let room = &self.handle.room;
        Counts { waiting_octets: room.guests.budget.waiting_octets(), ..room.tally.copy() }
    }

    /// Ends all listeners, connections and questions, waits for the threads and returns the last counters.
    /// Handles that still exist do nothing from then on.
    pub fn stop(self) -> Counts {
        let room = self.handle.room.clone();
        drop(self);
        room.tally.copy()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.servers.close();
        self.handle.upstreams.end();
        let end = |SideThread { end, thread, .. }| {
            // It fails where the thread has ended by itself.
            let _ = end.send(());
            thread
        };
        let threads: Vec<JoinHandle<()>> = self.threads.drain(..).map(end).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl SideThread {
    /// Starts a thread that does `work`, and everything that its event loop is given, until it is told to
    /// end.
    fn start(name: String, work: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        let event_loop = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (pulse, runtime) = (Pulse::new(&name), event_loop.handle().clone());
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(event_loop, work, ended))?;
        Ok(Self { pulse, runtime, end, thread })
    }

    fn is_silent(&self) -> bool {
        self.pulse.is_silent(|pulse| drop(self.runtime.spawn(async move { pulse.answer() })))
    }
}

/// The whole life of a side thread.
fn run(event_loop: Runtime, work: impl Future<Output = ()>, ended: oneshot::Receiver<()>) {
    event_loop.block_on(async {
        tokio::select! {
            () = work => {}
            _ = ended => {}
        }
        tokio::time::sleep(FAREWELL).await;
    });
    event_loop.shutdown_background();
}

/// Ends, again and again, what nobody else ends: connections that are idle for too long, and queries that the
/// owner has forgotten.
async fn tidy(room: Arc<Context>) {
    for check in 1u32.. {
        tokio::time::sleep(IDLE_CHECK_EVERY).await;
        room.end_idle_clients();
        if check.is_multiple_of(CHECKS_TO_SWEEP) {
            room.pending.sweep();
        }
    }
}

/// What a worker holds: it answers clients and asks upstream servers, from any thread and without waiting.
#[derive(Clone)]
pub struct Handle {
    room: Arc<Context>,
    upstreams: Arc<Generations>,
    runtime: runtime::Handle,
}

impl Handle {
    /// Answers the client's query `token` with a message of 12 to 65,535 octets. The answer to a query that
    /// has ended in the meantime goes nowhere.
    pub fn answer(&self, token: u64, octets: &[u8]) {
        self.room.pending.end(token, Some(octets.to_vec()));
        self.room.relieve();
    }

    /// Ends the client's query `token` without an answer: HTTPS answers 503, QUIC resets the stream, TCP and
    /// TLS stay silent.
    pub fn forget(&self, token: u64) {
        self.room.pending.end(token, None);
    }

    /// Asks the upstream server with this index in this generation. One [`Answer`] with `token` follows,
    /// within `timeout`.
    ///
    /// A connection that ends before the answer is made anew and the question is sent again, once.
    pub fn ask(&self, generation: u64, upstream: usize, token: u64, query: Vec<u8>, timeout: Duration) {
        let (room, upstreams) = (self.room.clone(), self.upstreams.clone());
        self.runtime.spawn(Box::pin(async move {
            let octets = upstreams.ask(generation, upstream, query, timeout).await;
            (room.on_answer)(Answer { token, octets });
        }));
    }
}
