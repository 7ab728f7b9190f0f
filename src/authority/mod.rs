//! The AuthDNS: a zone is a function from question to answer.
//!
//! [`zone`] is that function and knows no socket; [`server`] carries it over UDP and TCP.

mod hot;
mod response;
mod rule;
pub mod zone;

pub use zone::{Answer, QueryKind, Transport, Zone, ZoneConfig, ZoneError};
