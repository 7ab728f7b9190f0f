//! The AuthDNS from outside: its answers as another DNS library reads them, its sockets, and real resolvers before it.
#![allow(clippy::unwrap_used)]

mod faults;
mod frames;
mod kernel;
mod observe;
mod peers;
mod server;
mod zone;
