//! bpf(2), as far as aya does not wrap it safely: links that are held by a file descriptor and never by
//! netlink.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::plain::{Plain, plain};

const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ENABLE_STATS: libc::c_int = 32;
/// The attach type of XDP programs (linux/bpf.h, enum bpf_attach_type).
const BPF_XDP: u32 = 37;

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

plain! {
    LinkCreate: [u32, u32, u32, u32],
    EnableStatistics: [u32],
    TestRunCall: [u32, u32, u32, u32, u64, u64, u32, u32, u32, u32, u64, u64, u32, u32, u32, u32],
}

/// Attaches a program to a device of the calling thread's network namespace. The link lasts as long as the
/// descriptor.
pub(super) fn link_xdp(program: BorrowedFd<'_>, device: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attributes =
        LinkCreate { program: program.as_raw_fd() as u32, device, attach_type: BPF_XDP, flags };
    // SAFETY: the attributes name no memory.
    let descriptor = unsafe { bpf(BPF_LINK_CREATE, &mut attributes)? };
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The part of `union bpf_attr` for `BPF_ENABLE_STATS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct EnableStatistics {
    kind: u32,
}

/// Has the kernel count the runs of all BPF programs of the machine and their time (`run_cnt`, `run_time_ns`
/// in `/proc/PID/fdinfo`), as long as the descriptor is open.
///
/// # Errors
/// The process lacks CAP_SYS_ADMIN.
pub fn count_run_time() -> io::Result<OwnedFd> {
    const RUN_TIME: u32 = 0;
    let mut attributes = EnableStatistics { kind: RUN_TIME };
    // SAFETY: the attributes name no memory.
    let descriptor = unsafe { bpf(BPF_ENABLE_STATS, &mut attributes)? };
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
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

/// Runs an XDP program `repeat` times on frames of the kernel's own that start as copies of `frame`, and does
/// with each what the program says (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18). Frames leave after each
/// `batch` (1 to 256) of runs.
///
/// # Errors
/// A signal ends it with [`io::ErrorKind::Interrupted`]; the kernel is too old, or the process may not.
pub fn run_live(program: BorrowedFd<'_>, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    const LIVE_FRAMES: u32 = 1 << 1;
    let mut attributes = TestRunCall {
        program: program.as_raw_fd() as u32,
        frame_octets: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        repeat,
        flags: LIVE_FRAMES,
        batch,
        ..TestRunCall::default()
    };
    // SAFETY: the attributes name the frame, which is only read; without `out` nothing is written but the
    // attributes.
    let result = unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) };
    result.map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => io::Error::new(
            error.kind(),
            format!("{error} (the kernel may lack live frames of BPF_PROG_TEST_RUN, Linux 5.18)"),
        ),
        _ => error,
    })
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
pub fn run_once(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<TestRun> {
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
    // SAFETY: the attributes name the frame, which is only read, and `out`, of which no more than
    // `out_octets` is written.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes)? };
    out.truncate(attributes.out_octets as usize);
    Ok(TestRun { action: attributes.result, frame: out })
}

/// Calls bpf(2) with a beginning of `union bpf_attr`; some commands write their results there.
///
/// # Safety
/// Memory that the attributes name must be readable, and writable where the command writes to it, in the
/// lengths that they name.
unsafe fn bpf<T: Plain>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads no more than the size given, takes what is beyond it for zero, and writes no
    // more; any octets are a value. The caller answers for memory that the attributes name.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    crate::check(result as libc::c_int)
}
