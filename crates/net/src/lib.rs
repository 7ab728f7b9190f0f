//! Sockets, clock, processors and child processes: everything that needs a system call of its own.
//!
//! This is the only crate with `unsafe` code; each block says why it is sound. What it offers is safe to use.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod disk;
pub mod frame;
pub mod given;
pub mod kernel;
pub mod link;
pub mod live;
pub mod measure;
pub mod messages;
pub mod netns;
mod patience;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod sim;
pub mod tcp;
pub mod transport;
pub mod udp;

/// Turns the result of a system call into an [`std::io::Result`].
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
