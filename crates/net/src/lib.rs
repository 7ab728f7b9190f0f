//! Sockets, clock, processors and child processes: everything that needs a system call of its own.
//!
//! This is the only crate with `unsafe` code; each block says why it is sound. What it offers is safe to use.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod frame;
pub mod link;
