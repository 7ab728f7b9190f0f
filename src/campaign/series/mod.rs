//! Campaigns: many measurements as their description says, each a process of its own.
//!
//! A visit is an ordinary command line of this program. So whatever ends one of them (a crash, a server that dies, want of
//! memory) costs that one alone, anybody can repeat it, and a campaign that was broken off goes on where it was.

mod cell;
mod child;
mod description;
mod figures;
mod record;
mod run;
mod visited;
mod visits;

pub use cell::joined;
pub use description::{COMMANDS, Description, DescriptionError, Form};
pub use figures::{Figure, Published};
pub use record::{FILE, SCHEMA, Series, SeriesError, Visit, VisitState};
pub use run::{Campaign, Outcome};
pub use visited::Visited;
pub use visits::{SENTINEL, value_of, visits};
