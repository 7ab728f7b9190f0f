//! The AuthDNS from outside: its answers as another DNS library reads them, its sockets, and real resolvers
//! before it.
#![allow(clippy::unwrap_used)]

mod backends;
mod dnssec;
mod encrypted;
mod faults;
mod frames;
mod kernel;
mod observe;
mod oracle;
mod properties;
mod resolvers;
mod rules;
mod server;
mod zone;
