//! Reports from a record, for people. The crate knows only the record.
//!
//! Everything here is a function of [`record::Results`], or several with the record of their campaign
//! (`series`): text for the terminal, one HTML page, CSV, SVG and LaTeX. Charts are SVG of our own (`svg`,
//! `charts`), styled by classes, so that one drawing serves light, dark and print; `words` holds every
//! sentence, so that all forms say the same.
#![forbid(unsafe_code)]

mod bounds;
mod caveats;
mod charts;
mod clean;
pub mod compare;
mod connections;
mod csv;
mod figures;
mod goals;
mod held;
mod html;
pub mod index;
mod interval;
mod interval_table;
mod lines;
mod load;
mod method;

mod observed;
mod png;
mod select;
pub mod series;
mod svg;
mod table;
mod text;
mod transfer_text;
mod trial_text;
mod words;
mod write;

pub use bounds::{Inflation, drain_s, inflation};
pub use clean::one_line;
pub use csv::trials_csv;
pub use figures::{search_pictures, svg_figures};
pub use held::{Held, held};
pub use html::html;
pub use load::{FILE, LoadError, load};
pub use observed::observed_text;
pub use png::png_figures;
pub use text::{brief, text};
pub use transfer_text::transfer_text;
pub use trial_text::trial_text;
pub use words::{attempt_lines, certified, verdict};
pub use write::{tables, write_all};
