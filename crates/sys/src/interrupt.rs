//! Ending a long system call of another thread: by a signal whose handler does nothing.

use std::io;
use std::sync::OnceLock;

/// A real-time signal that nobody else uses: glibc takes the first two for itself.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Gives the signal its handler; the error is the system's number.
fn install() -> Result<(), i32> {
    // SAFETY: all zeros is an action without flags; without SA_RESTART the kernel ends calls. The handler
    // touches nothing, so it may run at any point.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
        libc::sigaction(signal(), &action, std::ptr::null_mut())
    };
    crate::check(result).map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// A thread of this process whose system calls can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(libc::pid_t);

impl Thread {
    /// The calling thread. From now on the signal only ends its system calls.
    ///
    /// # Errors
    /// The system gives the signal no handler, or does not let it through.
    pub fn current() -> io::Result<Self> {
        static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
        INSTALLED.get_or_init(install).map_err(io::Error::from_raw_os_error)?;
        // A thread inherits blocked signals, which would leave it in its call.
        // SAFETY: the set is filled before it is used; only this thread's mask changes.
        let result = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            crate::check(libc::sigemptyset(&mut set))?;
            crate::check(libc::sigaddset(&mut set, signal()))?;
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: the call has no arguments.
        Ok(Self(unsafe { libc::gettid() }))
    }

    /// Ends the call that the thread is in; without effect if it is in none or has ended.
    pub fn interrupt(self) {
        // SAFETY: the signal goes to this process alone, where it does nothing; numbers of ended threads are
        // refused.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal()) };
        let refused = crate::check(result as libc::c_int).err().and_then(|error| error.raw_os_error());
        // The thread has ended, or so many signals wait already that the system takes no more.
        let is_harmless = matches!(refused, None | Some(libc::ESRCH | libc::EAGAIN));
        debug_assert!(is_harmless, "tgkill: error {refused:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_returns_at_once() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(Thread::current().unwrap()).unwrap();
            // SAFETY: no descriptors are waited for.
            let result = unsafe { libc::poll(std::ptr::null_mut(), 0, 60_000) };
            (result, io::Error::last_os_error().kind())
        });
        let waiting = receiver.recv().unwrap();
        while !thread.is_finished() {
            waiting.interrupt();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(thread.join().unwrap(), (-1, io::ErrorKind::Interrupted));
        waiting.interrupt();
    }
}
