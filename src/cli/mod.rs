//! Options, resolved once into a configuration before any work.

pub mod auth;
pub mod peers;
