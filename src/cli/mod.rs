//! Options, resolved once into a configuration before any work.

pub mod report;
