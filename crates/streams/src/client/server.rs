//! One upstream server: its connection, made when it is needed, and the questions that share it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::{Connection, Failure};
use super::places::Places;
use super::target::Target;
use crate::counts::UpstreamCells;
use crate::message::{self, MESSAGE_OCTETS_MAX};
use crate::{NoAnswer, lock};

/// A connection with its handshake may take so long, also where the question that wanted it has less time:
/// the next one finds it ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failure to connect, questions fail at once for so long.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// A connection without questions is closed after this time.
pub(super) const IDLE: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    target: Target,
    slot: Mutex<Slot>,
    places: Places,
    cells: Arc<UpstreamCells>,
}

type ConnectResult = Option<Result<Arc<Connection>, Failure>>;

/// The connection of a server.
enum Slot {
    None,
    /// Being made; all who wait look here.
    Connecting(watch::Receiver<ConnectResult>),
    Open(Arc<Connection>),
    Failed(Instant),
}

impl Server {
    pub(super) fn new(target: Target, in_flight: usize, cells: Arc<UpstreamCells>) -> Arc<Self> {
        let places = Places::new(in_flight);
        Arc::new(Self { target, slot: Mutex::new(Slot::None), places, cells })
    }

    /// Asks one question. The answer has the ID of the query.
    pub async fn ask(self: Arc<Self>, query: Vec<u8>, limit: Duration) -> Result<Vec<u8>, NoAnswer> {
        self.cells.asked.add();
        if !(dns64::wire::HEADER_LENGTH..=MESSAGE_OCTETS_MAX).contains(&query.len()) {
            self.cells.failures.add();
            return Err(NoAnswer::Lost);
        }
        let mut place = self.places.enter();
        let ended = tokio::select! {
            ended = timeout(limit, self.exchange(&query)) => ended,
            () = place.given_up() => {
                self.cells.failures.add();
                return Err(NoAnswer::Full);
            }
        };
        match ended {
            Ok(Ok(mut answer)) => {
                self.cells.answered.add();
                message::set_id(&mut answer, message::id(&query));
                return Ok(answer);
            }
            Ok(Err(_)) => self.cells.failures.add(),
            Err(_) => self.cells.timeouts.add(),
        }
        Err(NoAnswer::Lost)
    }

    /// Asks on the connection there is, and once more on a new one if that ends before the answer (RFC 7766
    /// 6.2.4).
    async fn exchange(self: &Arc<Self>, query: &[u8]) -> Result<Vec<u8>, Failure> {
        let first = self.connection().await?.exchange(query).await;
        if first != Err(Failure::Lost) {
            return first;
        }
        self.cells.retries.add();
        self.connection().await?.exchange(query).await
    }

    /// The connection in use, or a new one.
    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, Failure> {
        let mut made = match &mut *lock(&self.slot) {
            Slot::Open(connection) if connection.is_usable() => return Ok(connection.clone()),
            Slot::Failed(at) if at.elapsed() < RECONNECT_PAUSE => return Err(Failure::Unusable),
            // An error says that nobody works at it any more.
            Slot::Connecting(made) if made.has_changed().is_ok() => made.clone(),
            slot => {
                let (sender, made) = watch::channel(None);
                *slot = Slot::Connecting(made.clone());
                tokio::spawn(Box::pin(self.clone().connect(sender)));
                made
            }
        };
        let made = made.wait_for(Option::is_some).await.map_err(Failure::from_error)?.clone();
        made.unwrap_or(Err(Failure::Unusable))
    }

    async fn connect(self: Arc<Self>, sender: watch::Sender<ConnectResult>) {
        let link = timeout(CONNECT_TIMEOUT, self.target.connect(&self.cells)).await;
        let made = link.unwrap_or(Err(Failure::Unusable)).map(|link| Arc::new(Connection::new(link)));
        *lock(&self.slot) = match &made {
            Ok(connection) => {
                self.cells.connections.add();
                Slot::Open(connection.clone())
            }
            Err(_) => {
                self.cells.connection_failures.add();
                Slot::Failed(Instant::now())
            }
        };
        sender.send_replace(Some(made));
    }
}
