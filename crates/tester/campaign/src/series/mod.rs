//! Campaigns: many measurements as their description says, each a process of its own.
//!
//! A visit is an ordinary command line of this program. A crash, a server that ends, or a lack of memory
//! therefore costs one visit only. Anybody can repeat a visit, and an interrupted campaign continues with the
//! next visit.

mod cell;
mod child;
mod description;
mod run;
mod visits;

pub use cell::joined;
pub use description::{COMMANDS, Description, DescriptionError};
pub use run::{Campaign, Outcome};
pub use visits::{value_of, visits};
