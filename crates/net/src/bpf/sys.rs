//! bpf(2), as far as aya does not wrap it safely: links that are held by a file descriptor and never by netlink.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_LINK_CREATE: libc::c_int = 28;
/// The attach type of XDP programs (linux/bpf.h, enum bpf_attach_type).
const BPF_XDP: u32 = 37;

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches a program to a device of the calling thread's network namespace. The link lasts as long as the descriptor.
pub(super) fn link_xdp(program: BorrowedFd<'_>, device: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkCreate { program: program.as_raw_fd() as u32, device, attach_type: BPF_XDP, flags };
    let descriptor = bpf(BPF_LINK_CREATE, &attributes)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Calls bpf(2) with a struct of integers that is a beginning of `union bpf_attr`.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads no more than the size given, and takes what is beyond it for zero. The commands of this
    // file write only to memory that their structs point to, which their callers lend for the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    crate::check(result as libc::c_int)
}
