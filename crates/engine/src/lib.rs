//! engine
#![forbid(unsafe_code)]
