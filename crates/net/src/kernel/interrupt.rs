//! Ending a long system call of another thread: by a signal whose handler does nothing.

use std::io;
use std::sync::Once;

/// A real-time signal that nobody else uses: glibc takes the first two for itself.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// A thread of this process whose system calls can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(libc::pid_t);

impl Thread {
    /// The calling thread. From now on the signal only ends its system calls.
    pub(super) fn current() -> io::Result<Self> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: all zeros is an action without flags; without SA_RESTART the kernel ends calls. The handler
            // touches nothing, so it may run at any point.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
                libc::sigaction(signal(), &action, std::ptr::null_mut());
            }
        });
        // A thread inherits blocked signals, which would leave it in its call.
        // SAFETY: the set is filled before it is used; only this thread's mask changes.
        let result = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: the call has no arguments.
        Ok(Self(unsafe { libc::gettid() }))
    }

    /// Ends the call that the thread is in; without effect if it is in none or has ended.
    pub(super) fn interrupt(self) {
        // SAFETY: the signal goes to this process alone, where it does nothing; numbers of ended threads are refused.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal()) };
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
