//! The way to one upstream server, as the watching thread sees it and the workers take it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use sys::link::next_hop;

/// The device that frames to a server leave by, by its number, and the Ethernet address that they go to.
pub(super) type Hop = (u32, [u8; 6]);

/// The way to an upstream server from an address of ours.
pub(super) struct Route {
    server: SocketAddr,
    own: IpAddr,
    /// `None` where only the kernel knows the way, or nobody yet.
    hop: Mutex<Option<Hop>>,
    version: AtomicU32,
    /// The next query shall leave by a socket, so that the kernel confirms that the next hop is there.
    doubted: AtomicBool,
}

impl Route {
    pub fn new(server: SocketAddr, own: IpAddr) -> Self {
        Self {
            server,
            own,
            hop: Mutex::new(None),
            version: AtomicU32::new(0),
            doubted: AtomicBool::new(false),
        }
    }

    pub fn server(&self) -> SocketAddr {
        self.server
    }

    pub fn own(&self) -> IpAddr {
        self.own
    }

    pub fn refresh(&self) {
        // Where it does not tell, its own sending is right.
        let found = next_hop(self.server, self.own).ok().flatten();
        let hop = found.map(|found| (found.device, found.mac));
        let mut known = self.hop.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != hop {
            *known = hop;
            self.version.fetch_add(1, Ordering::Release);
        }
        if found.is_some_and(|found| !found.certain) {
            self.doubted.store(true, Ordering::Relaxed);
        }
    }

    /// Changes whenever [`Route::hop`] does.
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub fn hop(&self) -> Option<Hop> {
        *self.hop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a query shall leave by a socket; it does so once.
    pub fn take_doubt(&self) -> bool {
        self.doubted.load(Ordering::Relaxed) && self.doubted.swap(false, Ordering::Relaxed)
    }
}
