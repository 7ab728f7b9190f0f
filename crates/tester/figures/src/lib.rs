//! The records of the performance documents (`docs/performance/*.json`), and the text that the documents and
//! the README have from them.
//!
//! A benchmark measures, writes its record, and renders the record. The same rendering runs in a test, so
//! that no document shows a figure that its record does not have. The crate is pure: no clock, socket,
//! thread, file or environment.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod auth;
pub mod dns64;
mod document;
mod goals;
mod origin;
pub mod promises;
mod sample;
pub mod tester;

pub use document::{NoBlock, fill, json_text};
pub use origin::{Origin, Program};
pub use sample::Sample;
