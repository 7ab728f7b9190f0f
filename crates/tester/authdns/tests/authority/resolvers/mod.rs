//! Real resolvers in front of the AuthDNS: they must take its answers, whether they forward, iterate or
//! validate.

mod config;
mod plain;
mod running;
mod signed;

pub use config::{NAME, Resolver, Setup};
pub use running::Running;
