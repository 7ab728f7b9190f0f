//! A thread that keeps what is taken from the stack in step with the machine's addresses, and the ways to
//! upstream servers with its routes and neighbours.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bypass::BypassTable;
use sys::link::{Changes, Device, addresses};
use sys::poll::{Events, Interest, Poller, Waker};

use super::queries::DeviceTable;
use super::way::Route;
use crate::config::Process;
use crate::runtime::ServerError;

/// News that come together are looked at together.
const SETTLE: Duration = Duration::from_millis(20);
/// How often is looked without news.
const ROUND: Duration = Duration::from_secs(1);

pub(super) struct WatchedRoutes {
    devices: Vec<(Device, Arc<BypassTable>)>,
    /// The listeners as they were asked for, and for each device what that means at present.
    listeners: Mutex<(Vec<SocketAddr>, Vec<Vec<SocketAddr>>)>,
    /// Those that a generation still has.
    ways: Mutex<Vec<Weak<Route>>>,
}

impl WatchedRoutes {
    pub fn new(devices: Vec<(Device, Arc<BypassTable>)>) -> Self {
        let listeners = Mutex::new((Vec::new(), vec![Vec::new(); devices.len()]));
        Self { devices, listeners, ways: Mutex::default() }
    }

    /// Takes the queries to these listeners, and no others, from now on.
    pub fn listen(&self, listeners: Vec<SocketAddr>) {
        lock(&self.listeners).0 = listeners;
        self.refresh();
    }

    /// The way to a server from an address of ours, followed from now on for as long as somebody has it.
    pub fn way(&self, server: SocketAddr, own: IpAddr) -> Arc<Route> {
        let way = Arc::new(Route::new(server, own));
        way.refresh();
        lock(&self.ways).push(Arc::downgrade(&way));
        way
    }

    /// What is taken from each device.
    pub fn tables(&self) -> Vec<Arc<BypassTable>> {
        self.devices.iter().map(|(_, table)| table.clone()).collect()
    }

    /// The same, with the number of each device.
    pub fn device_tables(&self) -> Vec<DeviceTable> {
        self.devices.iter().map(|(device, table)| (device.index, table.clone())).collect()
    }

    /// Looks at everything again.
    fn refresh(&self) {
        // Without an answer of the kernel everything stays as it is; there is a next time.
        let _ = self.refresh_listeners();
        lock(&self.ways).retain(|way| {
            way.upgrade().is_some_and(|way| {
                way.refresh();
                true
            })
        });
    }

    fn refresh_listeners(&self) -> io::Result<()> {
        let mut listeners = lock(&self.listeners);
        let (wanted, present) = &mut *listeners;
        // Where no wildcard stands for them, addresses need not be known.
        let any = wanted.iter().any(|listener| listener.ip().is_unspecified());
        let assigned = if any { addresses()? } else { Vec::new() };
        for ((device, table), present) in self.devices.iter().zip(present) {
            // Its own addresses come first: the table is finite.
            let (own, others): (Vec<_>, Vec<_>) =
                assigned.iter().partition(|assigned| assigned.device == device.name);
            let here: Vec<_> = own.into_iter().chain(others).map(|assigned| assigned.address).collect();
            let mut addresses: Vec<SocketAddr> = Vec::new();
            for listener in wanted.iter() {
                let meant = here.iter().filter(|here| {
                    listener.ip().is_unspecified()
                        && here.is_ipv4() == listener.is_ipv4()
                        && !here.is_loopback()
                });
                let itself = Some(*listener).filter(|listener| !listener.ip().is_unspecified());
                let meant = meant.map(|&here| SocketAddr::new(here, listener.port())).chain(itself);
                addresses.extend(meant);
            }
            if *present != addresses {
                table.set_listeners(&addresses);
                *present = addresses;
            }
        }
        Ok(())
    }
}

/// Nothing that is locked here can be left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. It ends when this is dropped.
pub(super) struct RouteWatcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    watched: WatchedRoutes,
    changes: Changes,
    waker: Waker,
    end: AtomicBool,
}

impl RouteWatcher {
    pub fn start(watched: WatchedRoutes, process: Process) -> Result<Self, ServerError> {
        let cannot = |what: &'static str| move |error| ServerError::System(what, error);
        let changes = Changes::new().map_err(cannot("listen for changes of routes"))?;
        let waker = Waker::new().map_err(cannot("make an eventfd"))?;
        let shared = Arc::new(Shared { watched, changes, waker, end: AtomicBool::new(false) });
        let run = {
            let shared = shared.clone();
            move || {
                // It needs none; where it cannot give up what it has, it goes on.
                let _ = crate::privileges::shed_thread(&process);
                // Without it nothing new is learnt, and what is known goes on.
                let _ = shared.run();
            }
        };
        let thread = std::thread::Builder::new().name("dns64d-ways".to_owned()).spawn(run);
        let thread = thread.map_err(cannot("start a thread"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub fn watched(&self) -> &WatchedRoutes {
        &self.shared.watched
    }
}

impl Drop for RouteWatcher {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) -> io::Result<()> {
        let (poller, mut events) = (Poller::new()?, Events::with_capacity(2));
        poller.add(&self.changes, 0, Interest::Read)?;
        poller.add(&self.waker, 0, Interest::Read)?;
        while !self.end.load(Ordering::Relaxed) {
            if poller.wait(&mut events, Some(ROUND))? > 0 && !self.end.load(Ordering::Relaxed) {
                std::thread::sleep(SETTLE);
                self.changes.take();
            }
            self.watched.refresh();
        }
        Ok(())
    }
}
