//! Which system calls the process may still make (seccomp(2)).
//!
//! Everything else fails with `ENOSYS`, as on a kernel that does not have it: no other programs, no other
//! processes, no sockets but those of IPv4, IPv6 and Unix, no tracing, no mounts, no change of user.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Calls that are allowed whatever their arguments.
const ALLOWED: &[c_long] = &[
    // Files and descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_openat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_unlinkat,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    // The process itself. capset(2) can only give up.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_capset,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    // Signals. tgkill(2) is how abort(3) ends the process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_restart_syscall,
    // Time and waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    // Sockets.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// The same under their older names, which some machines have besides.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLDER: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_access,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
/// The same under their older names, which this machine does not have.
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLDER: &[c_long] = &[];

/// Calls that are allowed if one argument, by its index, is one of these.
const ALLOWED_WITH: &[(c_long, u8, &[u64])] = &[
    (libc::SYS_socket, 0, &[libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_UNIX as u64]),
    (libc::SYS_socketpair, 0, &[libc::AF_UNIX as u64]),
    (libc::SYS_ioctl, 1, &[libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD, libc::TCGETS]),
    (libc::SYS_prctl, 0, &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_VMA as u64]),
];

/// Gives up all other calls, for all threads; with `routes` the process can still ask for routes and
/// neighbours. Says what was done, or why it could not be.
pub(super) fn give_up(routes: bool) -> Result<String, String> {
    let program = program(routes).map_err(|error| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())?;
    Ok("only those of a network server without child processes can be made".to_owned())
}

fn program(routes: bool) -> Result<BpfProgram, Error> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        ALLOWED.iter().chain(ALLOWED_OLDER).map(|&call| (call, Vec::new())).collect();
    for &(call, argument, values) in ALLOWED_WITH {
        let rule = |&value: &u64| when(argument, SeccompCmpOp::Eq, value);
        rules.insert(call, values.iter().map(rule).collect::<Result<_, _>>()?);
    }
    if routes {
        let netlink = condition(0, SeccompCmpOp::Eq, libc::AF_NETLINK as u64)?;
        let about_routes = condition(2, SeccompCmpOp::Eq, libc::NETLINK_ROUTE as u64)?;
        rules.entry(libc::SYS_socket).or_default().push(SeccompRule::new(vec![netlink, about_routes])?);
    }
    // A new thread, not a new process. clone3(2) hides its flags from the filter; without it the C library
    // uses this one.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(thread), thread)?]);
    let otherwise = SeccompAction::Errno(libc::ENOSYS as u32);
    let machine: TargetArch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, SeccompAction::Allow, machine)?.try_into()?)
}

fn when(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    Ok(SeccompRule::new(vec![condition(argument, comparison, value)?])?)
}

fn condition(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_can_be_made_and_is_short_enough() {
        let octets = program(true).unwrap().len();
        // The kernel takes 4096 instructions.
        assert!((100..4096).contains(&octets), "{octets}");
    }
}
