//! Upstream servers: asked over connections that are kept and shared.

mod connection;
mod framed;
mod https;
mod ids;
mod places;
mod quic;
mod server;
mod target;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::counts::UpstreamCells;
use crate::{NoAnswer, Protocol, Roots, lock};

use server::Server;
use target::Target;

/// Questions in flight at one upstream server at most: half of the IDs of a connection, so that a free one is
/// soon drawn.
pub const UPSTREAM_IN_FLIGHT_MAX: usize = 1 << 15;

/// An upstream server as the owner names it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The server's address and port.
    pub address: SocketAddr,
    /// The protocol that the server is asked by.
    pub protocol: Protocol,
    /// The name its certificate must have, a host name or an address; `None` is its address. TCP ignores it.
    pub tls_name: Option<String>,
    /// The path of its HTTPS resource, such as `/dns-query`; other protocols ignore it.
    pub path: String,
    /// The address it is asked from; `None` leaves it to the system.
    pub source: Option<IpAddr>,
    /// Who may vouch for its certificate; TCP needs none.
    pub roots: Option<Roots>,
    /// Questions in flight at it at most, 1 to [`UPSTREAM_IN_FLIGHT_MAX`]. One more ends the oldest, which is
    /// told [`NoAnswer::Full`].
    pub in_flight: usize,
}

/// Why an upstream server cannot be asked, ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// No certificate can have this name.
    Name(SocketAddr, String),
    /// This path and the server's name make no URI.
    Path(SocketAddr, String),
    /// Its protocol is encrypted, and no authorities are given.
    NoRoots(SocketAddr),
    /// Upstream servers are not asked by this protocol.
    Protocol(SocketAddr, Protocol),
    /// The TLS library refused the settings.
    Tls(SocketAddr, String),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(address, name) => {
                write!(f, "upstream {address}: no certificate can have the name {name}")
            }
            Self::Path(address, path) => write!(f, "upstream {address}: {path} is no path of a URI"),
            Self::NoRoots(address) => write!(f, "upstream {address}: no trusted authorities given"),
            Self::Protocol(address, protocol) => {
                write!(f, "upstream {address}: no server is asked over {protocol}")
            }
            Self::Tls(address, reason) => write!(f, "upstream {address}: TLS: {reason}"),
        }
    }
}

impl std::error::Error for UpstreamError {}

/// How many lists of upstream servers can be asked: the one in force and the one before.
const GENERATIONS: usize = 2;

/// The lists of upstream servers, the newest last.
pub(crate) struct Generations {
    lists: Mutex<Vec<(u64, Vec<Arc<Server>>)>>,
    cells: Arc<UpstreamCells>,
    ended: watch::Sender<bool>,
}

impl Generations {
    pub fn new(cells: Arc<UpstreamCells>) -> Self {
        Self { lists: Mutex::default(), cells, ended: watch::Sender::default() }
    }

    /// Adds a list, or replaces the one of the same generation.
    pub fn add(&self, generation: u64, upstreams: Vec<Upstream>) -> Result<(), UpstreamError> {
        let servers = upstreams
            .into_iter()
            .map(|upstream| {
                let in_flight = upstream.in_flight.min(UPSTREAM_IN_FLIGHT_MAX);
                Ok(Server::new(Target::new(upstream)?, in_flight, self.cells.clone()))
            })
            .collect::<Result<_, _>>()?;
        let mut lists = lock(&self.lists);
        lists.retain(|(number, _)| *number != generation);
        lists.push((generation, servers));
        let surplus = lists.len().saturating_sub(GENERATIONS);
        lists.drain(..surplus);
        Ok(())
    }

    fn find(&self, generation: u64, index: usize) -> Option<Arc<Server>> {
        let lists = lock(&self.lists);
        let (_, servers) = lists.iter().find(|(number, _)| *number == generation)?;
        servers.get(index).cloned()
    }

    /// Asks one question. The end of everything ends it, too.
    pub async fn ask(
        &self,
        generation: u64,
        index: usize,
        query: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let server = self.find(generation, index).ok_or(NoAnswer::Lost)?;
        let mut ended = self.ended.subscribe();
        tokio::select! {
            answer = server.ask(query, timeout) => answer,
            _ = ended.wait_for(|&ended| ended) => Err(NoAnswer::Lost),
        }
    }

    /// Ends all questions in flight and, with them, all connections.
    pub fn end(&self) {
        lock(&self.lists).clear();
        self.ended.send_replace(true);
    }
}
