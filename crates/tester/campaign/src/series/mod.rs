//! Campaigns: many measurements as their description says, each a process of its own.
//!
//! A visit is an ordinary command line of this program. So whatever ends one of them (a crash, a server that
//! dies, want of memory) costs that one alone, anybody can repeat it, and a campaign that was broken off goes
//! on where it was.

mod cell;
mod child;
mod description;
mod run;
mod visits;

pub use cell::joined;
pub use description::{COMMANDS, Description, DescriptionError};
pub use run::{Campaign, Outcome};
pub use visits::{value_of, visits};
