//! Settings of a child process between fork and exec.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the child when the thread that spawned it ends (`PR_SET_PDEATHSIG`), so that no server
/// outlives the instrument whatever ends it. Spawn from a thread that lives as long as the child shall.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes async-signal-safe calls only.
    unsafe {
        command.pre_exec(move || {
            crate::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            // The parent may have died before the call above.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// Keeps the child on the given processors.
pub fn set_affinity<'c>(command: &'c mut Command, cpus: &[usize]) -> &'c mut Command {
    let cpus = cpus.to_vec();
    // SAFETY: the closure makes one async-signal-safe system call and does not allocate.
    unsafe { command.pre_exec(move || crate::cpu::restrict(&cpus)) }
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: the call has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Asks a process to end (`SIGTERM`).
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn terminate(pid: u32) -> io::Result<()> {
    signal(pid, libc::SIGTERM)
}

/// Sends a signal to a process.
///
/// # Errors
/// Likewise, or there is no such signal.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the call has no memory to touch.
    crate::check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Clock ticks of `/proc/PID/stat` in a second.
pub fn ticks_per_second() -> u64 {
    // SAFETY: the call has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

/// Raises the limit of open files to the hard limit, for many sockets; returns the limit in force.
pub fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit to fill and to read.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 0;
        }
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) == 0 { wanted.rlim_cur } else { limit.rlim_cur }
    }
}
