//! The side thread, and the ways into it.

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
use crate::{Answer, Counts, Limits, Listener, Query, ServerTls, Upstream, UpstreamError};

/// The name of the side thread.
const THREAD: &str = "dns64d-streams";

/// How often forgotten queries are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// How long the end waits for QUIC peers to be told of it.
const FAREWELL: Duration = Duration::from_millis(100);

/// The side thread with all its listeners and connections. Dropping it ends them.
pub struct Streams {
    handle: Handle,
    servers: Servers,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Streams {
    /// Starts the thread, without listeners and upstream servers.
    ///
    /// The callbacks run on that thread and must be short: they hand the message on and return. `on_query` is
    /// called for every message of a client, `on_answer` once for every [`Handle::ask`].
    ///
    /// # Errors
    /// The thread or its event loop cannot be made.
    pub fn start(
        on_query: impl Fn(Query) + Send + Sync + 'static,
        on_answer: impl Fn(Answer) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let room = Arc::new(Context {
            on_query: Box::new(on_query),
            on_answer: Box::new(on_answer),
            pending: Pending::default(),
            guests: ClientConnections::default(),
            tally: Tally::default(),
        });
        let upstreams = Arc::new(Generations::new(room.tally.upstreams.clone()));
        let handle = Handle { room: room.clone(), upstreams, runtime: runtime.handle().clone() };
        let (end, ended) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || run(runtime, &room, ended))?;
        let certificates = Arc::new(Certificates::default());
        Ok(Self { handle, servers: Servers::new(certificates), end: Some((end, thread)) })
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
    /// that needs a certificate where none was ever given.
    pub fn listen(
        &self,
        listeners: Vec<Listener>,
        tls: Option<ServerTls>,
        limits: Limits,
    ) -> Result<(), ListenError> {
        let _entered = self.handle.runtime.enter();
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
        self.handle.room.tally.copy()
    }

    /// Ends all listeners, connections and questions, and waits for the thread. Handles that still exist do
    /// nothing from then on.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.servers.close();
        self.handle.upstreams.end();
        let Some((end, thread)) = self.end.take() else { return };
        // Neither can fail but when the thread has ended by itself.
        let _ = end.send(());
        let _ = thread.join();
    }
}

/// The whole life of the side thread.
fn run(runtime: Runtime, room: &Context, mut ended: oneshot::Receiver<()>) {
    runtime.block_on(async {
        while tokio::time::timeout(SWEEP_EVERY, &mut ended).await.is_err() {
            room.pending.sweep();
        }
        tokio::time::sleep(FAREWELL).await;
    });
    runtime.shutdown_background();
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
