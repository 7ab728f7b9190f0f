//! The lanes of the generator: a thread for each, in one long system call that sends by the schedule.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::bpf::run_live;
use sys::cpu;
use sys::interrupt::Thread;

/// The program runs this often in one call; at 20 million runs a second that is 100 s.
const RUNS: u32 = 1 << 31;
/// A batch holds at most this share of what is due in 10 ms: frames leave, and are seen by others, a batch at
/// a time. A server's socket, where each such frame counts as a whole page, overflows sooner with larger
/// ones.
const BATCH_SHARE_OF_10_MS: u64 = 1000;
/// The most frames of a batch.
const BATCH_MAX: u64 = 64;

/// A lane, as seen by its thread and by the one that ends it.
#[derive(Debug, Default)]
pub(super) struct Lane {
    thread: OnceLock<Thread>,
    ending: AtomicBool,
    ended: AtomicBool,
}

/// What all lanes have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator<'a> {
    /// The program.
    pub program: BorrowedFd<'a>,
    /// The length of every frame in octets.
    pub frame_octets: usize,
    /// Frames leave after so many runs of the program.
    pub batch: u32,
    /// See [`crate::plan::Plan::prioritized`].
    pub prioritized: bool,
}

/// The number of runs between which frames leave, at the rate of one lane.
pub(super) fn batch(rate_qps: u64) -> u32 {
    (rate_qps / 100 / BATCH_SHARE_OF_10_MS).clamp(1, BATCH_MAX) as u32
}

impl Lane {
    /// Sends until it is told to end; returns the processor time used, in ns.
    ///
    /// # Errors
    /// The processor may not be used, or the kernel cannot run programs on frames.
    pub(super) fn run(&self, generator: &Generator<'_>, processor: usize) -> io::Result<u64> {
        let result = self.generate(generator, processor);
        self.ended.store(true, Ordering::Release);
        result
    }

    fn generate(&self, generator: &Generator<'_>, processor: usize) -> io::Result<u64> {
        // The program finds its lane by the processor, so this must not fail.
        cpu::pin(processor)?;
        if generator.prioritized {
            cpu::prioritize();
        }
        let started_ns = cpu::thread_time_ns();
        let thread = Thread::current()?;
        self.thread.get_or_init(|| thread);
        let frame = vec![0; generator.frame_octets];
        while !self.ending.load(Ordering::Acquire) {
            match run_live(generator.program, &frame, RUNS, generator.batch) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(io::Error::new(error.kind(), format!("generating queries: {error}")));
                }
                _ => {}
            }
        }
        Ok(cpu::thread_time_ns() - started_ns)
    }

    /// Asks it to end. To be repeated until it has: a signal may come just before the call that it shall end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get().filter(|_| !self.has_ended()) {
            thread.interrupt();
        }
    }

    /// Whether it was asked to end.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether it has ended, with or without an error.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_thousandth_of_ten_milliseconds() {
        let rates = [1, 100_000, 200_000, 1_000_000, 6_400_000, 50_000_000];
        assert_eq!(rates.map(batch), [1, 1, 2, 10, 64, 64]);
    }
}
