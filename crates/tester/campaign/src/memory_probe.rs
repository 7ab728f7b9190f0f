//! The memory that standing connections take of the server: its processes are read before the connections are
//! opened, and when all stand and no query was sent yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::observe::ProcessCounters;
use measurer::live::Live;

use super::target::Target;

/// The pause between two looks: far shorter than the time between the connections and the first query.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a trial, and tells how much memory of the server each connection takes, in octets; `None` without
/// connections, or where the server's processes are not known.
pub fn beside<T>(target: &Target, live: &Live, trial: impl FnOnce() -> T) -> (T, Option<u64>) {
    let before = target.streams.as_ref().and_then(|_| octets(&target.pids));
    let Some(before_octets) = before else { return (trial(), None) };
    live.set_standing(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match live.standing() {
                    0 => thread::park_timeout(PAUSE),
                    connections => {
                        return octets(&target.pids).map(|now| each(before_octets, now, connections));
                    }
                }
            }
            None
        });
        let done = trial();
        over.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        (done, watching.join().unwrap_or_default())
    })
}

/// The memory of all processes of the server, in octets.
fn octets(pids: &[u32]) -> Option<u64> {
    ProcessCounters::of_all(pids).map(|counters| counters.memory_octets())
}

fn each(before_octets: u64, now_octets: u64, connections: u64) -> u64 {
    now_octets.saturating_sub(before_octets) / connections.max(1)
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn memory_is_shared_by_the_connections() {
        assert_eq!(each(1_000_000, 3_000_000, 1000), 2000);
        assert_eq!(each(3, 2, 0), 0);
    }
}
