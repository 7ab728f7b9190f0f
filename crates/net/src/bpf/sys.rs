//! bpf(2), as far as aya does not wrap it safely: links that are held by a file descriptor and never by netlink.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_PROG_TEST_RUN: libc::c_int = 10;
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
pub(crate) fn link_xdp(program: BorrowedFd<'_>, device: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkCreate { program: program.as_raw_fd() as u32, device, attach_type: BPF_XDP, flags };
    let descriptor = bpf(BPF_LINK_CREATE, &attributes)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRunCall {
    program: u32,
    result: u32,
    frame_octets: u32,
    out_octets: u32,
    frame: u64,
    out: u64,
    repeat: u32,
    duration: u32,
    context_octets: u32,
    context_out_octets: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// Runs an XDP program `repeat` times on frames of the kernel's own that start as copies of `frame`, and does with each
/// what the program says (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18). Frames leave after each `batch` (1 to 256) of runs.
/// A signal ends it with [`io::ErrorKind::Interrupted`].
pub(crate) fn run_live(program: BorrowedFd<'_>, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    const LIVE_FRAMES: u32 = 1 << 1;
    let attributes = TestRunCall {
        program: program.as_raw_fd() as u32,
        frame_octets: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        repeat,
        flags: LIVE_FRAMES,
        batch,
        ..TestRunCall::default()
    };
    bpf(BPF_PROG_TEST_RUN, &attributes).map(drop)
}

/// What an XDP program did with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What it returned: `XDP_PASS` and so on (`enum xdp_action` of linux/bpf.h).
    pub action: u32,
    /// What it made of the frame.
    pub frame: Vec<u8>,
}

/// Runs an XDP program once on a copy of a frame, which goes nowhere.
pub(crate) fn run_once(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<TestRun> {
    /// A page: the kernel takes no longer frames in one piece.
    const OUT_OCTETS: usize = 4096;
    let mut out = vec![0u8; OUT_OCTETS];
    let mut attributes = TestRunCall {
        program: program.as_raw_fd() as u32,
        frame_octets: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        out_octets: out.len() as u32,
        out: out.as_mut_ptr() as u64,
        repeat: 1,
        ..TestRunCall::default()
    };
    // SAFETY: the kernel reads the struct and the frame, writes no more than `out_octets` to `out`, and then the results
    // into the struct, which is lent for that.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            std::ptr::from_mut(&mut attributes),
            size_of::<TestRunCall>(),
        )
    };
    crate::check(done as libc::c_int)?;
    out.truncate(attributes.out_octets as usize);
    Ok(TestRun { action: attributes.result, frame: out })
}

/// Calls bpf(2) with a struct of integers that is a beginning of `union bpf_attr`.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads no more than the size given, and takes what is beyond it for zero. The commands of this
    // file write only to memory that their structs point to, which their callers lend for the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    crate::check(result as libc::c_int)
}
