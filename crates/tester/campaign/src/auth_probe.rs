//! Whether the AuthDNS answers in time while it works for the server under test, seen from where that server
//! asks it.
//!
//! RFC 8219 9.2.1 leaves the AuthDNS a quarter of the timeout for each answer. The self-test certifies that
//! beforehand; the probe checks this again in every trial, a few times a second. If the AuthDNS is late, a
//! failure at that time cannot be blamed on the server.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use measurer::live::Live;

use super::target::{Auth, Target};
use lab::peers::{PROBE_ADDRESS, Probe, reachable};

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// The questions to the AuthDNS beside a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Those asked while the Measurer sent.
    pub asked: u64,
    /// From when until when each of these waited that had no answer after a quarter of the timeout, in ns on
    /// the monotonic clock.
    pub late: Vec<Range<u64>>,
}

impl Probed {
    /// How many were answered in time.
    pub fn answered(&self) -> u64 {
        self.asked - self.late.len() as u64
    }
}

/// Runs a trial and asks the AuthDNS meanwhile, unless there is none, or it is itself the server that is
/// asked, or it observes the queries that come: the Tester's own would be taken for the server's.
pub fn beside<T>(
    auth: Option<&Auth>,
    target: &Target,
    live: &Live,
    trial: impl FnOnce() -> T,
) -> (T, Option<Probed>) {
    let Some((at, probe)) = asked(auth, target) else { return (trial(), None) };
    let patience = Duration::from_nanos(target.limits.auth_answer_ns.max(1000));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let before = live.counts().sent;
        // A hosted AuthDNS works while the Measurer's threads do.
        let served = move || live.counts().sent != before;
        let ask = move || ask_until(over, served, |id| probe.has_reply(at, id, patience));
        let probing = scope.spawn(move || match target.pids.first() {
            Some(&pid) => sys::netns::within_process(pid, ask).ok().flatten(),
            None => ask(),
        });
        let done = trial();
        over.store(true, Ordering::Relaxed);
        probing.thread().unpark();
        (done, probing.join().ok().flatten())
    })
}

/// Where to ask, and what.
fn asked(auth: Option<&Auth>, target: &Target) -> Option<(SocketAddr, Probe)> {
    let authority = &auth?.authority;
    let observes = authority.observer().is_some_and(|observer| observer.is_watching());
    let at = reachable(*authority.local_addrs().first()?);
    let probe = Probe::a(PROBE_ADDRESS, &target.workload.suffix).ok()?;
    (at != target.server && !observes).then_some((at, probe))
}

/// Asks now and then, while the AuthDNS is served, until the trial is over; `None` if there is no asking from
/// here.
fn ask_until(
    over: &AtomicBool,
    served: impl Fn() -> bool,
    mut ask: impl FnMut(u16) -> io::Result<bool>,
) -> Option<Probed> {
    let mut probed = Probed::default();
    for id in (0..=u16::MAX).cycle() {
        thread::park_timeout(PAUSE);
        if !served() && !over.load(Ordering::Relaxed) {
            continue;
        }
        let asked_ns = sys::clock::monotonic_ns();
        let answered = !over.load(Ordering::Relaxed) && ask(id).ok()?;
        if over.load(Ordering::Relaxed) {
            break;
        }
        probed.asked += 1;
        if !answered {
            probed.late.push(asked_ns..sys::clock::monotonic_ns());
        }
    }
    Some(probed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_before_the_first_query_or_after_the_last() {
        let over = AtomicBool::new(true);
        let ask = |_| -> io::Result<bool> { panic!("asked") };
        assert_eq!(ask_until(&over, || false, ask), Some(Probed::default()));
    }

    #[test]
    fn a_question_without_an_answer_is_noted_with_its_time() {
        let over = AtomicBool::new(false);
        let from_ns = sys::clock::monotonic_ns();
        let probed = ask_until(
            &over,
            || true,
            |id| {
                over.store(id == 2, Ordering::Relaxed);
                Ok(id == 0)
            },
        );
        let probed = probed.unwrap();
        assert_eq!((probed.asked, probed.answered()), (2, 1), "{probed:?}");
        assert!(probed.late[0].start >= from_ns && probed.late[0].end <= sys::clock::monotonic_ns());
    }
}
