//! Which processors a thread may run on.

use std::io;
use std::mem::{size_of, zeroed};

pub use crate::clock::thread_time_ns;

/// The processors the calling thread may use, in ascending order.
pub fn available() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is an empty set; the kernel fills at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index stays below CPU_SETSIZE, the number of bits of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// The number that stands for the calling thread.
const THIS_THREAD: libc::pid_t = 0;

/// Keeps the calling thread, and the threads and children it starts later, on the given processors.
///
/// # Errors
/// None of them exists or may be used.
pub fn restrict(cpus: &[usize]) -> io::Result<()> {
    keep(THIS_THREAD, cpus)
}

fn keep(thread: libc::pid_t, cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is an empty set; indexes beyond its bits are left out.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        crate::check(libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// It does not exist or may not be used.
pub fn pin(cpu: usize) -> io::Result<()> {
    restrict(&[cpu])
}

/// Keeps another thread, for example one of the kernel, on one processor.
///
/// # Errors
/// There is no such thread or processor, or `CAP_SYS_NICE` is missing.
pub fn pin_thread(thread: u32, cpu: usize) -> io::Result<()> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    keep(thread, &[cpu])
}

/// Asks for the highest ordinary priority for the calling thread, and for its session among others where the
/// kernel groups sessions (autogroup); `false` if the process may not. Real-time priority would be worse: the
/// kernel takes the processor away from a real-time thread that never sleeps for 50 ms of each second.
pub fn prioritize() -> bool {
    const HIGHEST: libc::c_int = -20;
    // Not there on kernels without autogroups, and then not needed.
    let _ = std::fs::write("/proc/self/autogroup", HIGHEST.to_string());
    // SAFETY: the call has no memory to touch; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) == 0 }
}

/// Puts the calling thread behind all others of its processor, for load that stands for other machines;
/// `false` if the kernel refuses.
pub fn give_way() -> bool {
    const LOWEST: libc::c_int = 19;
    // SAFETY: the call has no memory to touch; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) == 0 }
}
