//! Sockets, AF_XDP, BPF loading, links and namespaces, clocks, processors, processes and privileges:
//! everything that needs a system call of its own. The crate knows neither a Measurer nor a DNS server.
//!
//! This is the only crate with `unsafe` code; each block says why it is sound. The public interface is safe.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod disk;
pub mod frame;
pub mod given;
pub mod interrupt;
pub mod link;
pub mod messages;
pub mod metrics_page;
pub mod netns;
mod option;
pub mod patience;
mod plain;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod random;
pub mod tcp;
pub mod udp;
pub mod xdp;

/// Turns the result of a system call into an [`std::io::Result`].
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
