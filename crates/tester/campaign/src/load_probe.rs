//! Reads, ten times a second, how much of the processors other programs use while a trial runs.
//!
//! The totals of a trial show that there was load, not when. A load explains a failure only if both coincide.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::trial::LoadSample;
use lab::observe::{LoadMeter, LoadReading};

/// The pause between two readings: the kernel counts in hundredths of a second.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a trial and reads the processor times meanwhile; 32 octets for each tenth of a second. The processes
/// of the server are `server`, if they are known. No samples where the kernel tells nothing.
pub fn beside<T>(server: &[u32], trial: impl FnOnce() -> T) -> (T, Vec<LoadSample>) {
    read_beside(&LoadMeter::new(server), trial)
}

/// The same by a meter.
pub fn read_beside<T>(meter: &LoadMeter, trial: impl FnOnce() -> T) -> (T, Vec<LoadSample>) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampling = scope.spawn(|| sample_until(&over, || meter.read()));
        let done = trial();
        over.store(true, Ordering::Relaxed);
        sampling.thread().unpark();
        (done, sampling.join().unwrap_or_default())
    })
}

/// Samples until the trial is over, and once more then.
fn sample_until(over: &AtomicBool, read: impl Fn() -> Option<LoadReading>) -> Vec<LoadSample> {
    let mut samples = Vec::new();
    let Some(mut before) = read() else { return samples };
    loop {
        if !over.load(Ordering::Relaxed) {
            thread::park_timeout(PAUSE);
        }
        let last = over.load(Ordering::Relaxed);
        let Some(now) = read() else { return samples };
        let (steal_ns, other_programs_ns) = now.since(&before);
        samples.push(LoadSample {
            from_ns: before.taken_ns,
            until_ns: now.taken_ns,
            steal_ns,
            other_programs_ns,
        });
        if last {
            return samples;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_one_another_and_cover_the_trial() {
        let from_ns = sys::clock::monotonic_ns();
        let (until_ns, samples) = beside(&[std::process::id()], || {
            thread::sleep(3 * PAUSE);
            sys::clock::monotonic_ns()
        });
        assert!(samples.len() > 1, "{samples:?}");
        assert!(samples.windows(2).all(|pair| pair[0].until_ns == pair[1].from_ns), "{samples:?}");
        assert!(samples.last().is_some_and(|last| last.until_ns >= until_ns), "{samples:?}");
        assert!(samples[0].from_ns >= from_ns && samples.iter().all(|one| one.other_programs_ns.is_some()));
        let unread = sample_until(&AtomicBool::new(false), || None);
        assert_eq!(unread, [], "nothing is read");
    }
}
