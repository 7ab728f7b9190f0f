//! Whether the AuthDNS answers in time while it works for the server under test, seen from where that server
//! asks it.
//!
//! RFC 8219 9.2.1 leaves the AuthDNS a quarter of the timeout for each answer. The self-test certifies that
//! beforehand; this looks again in every trial, a few times a second. What has not arrived by then cannot be
//! laid at the server's door.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use measurer::live::Live;

use super::target::{Auth, Target};
use lab::peers::{PROBE_ADDRESS, Probe, reachable};

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// The questions to the AuthDNS beside a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Those asked while the Measurer sent.
    pub asked: u64,
    /// Of these, without an answer after a quarter of the timeout.
    pub late: u64,
}

/// Runs a trial and asks the AuthDNS meanwhile, unless there is none or it is itself the server that is
/// asked.
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
        let ask = move || ask_until(over, live, |id| probe.has_reply(at, id, patience));
        let probing = scope.spawn(move || match target.pid {
            Some(pid) => sys::netns::within_process(pid, ask).ok().flatten(),
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
    let at = reachable(*auth?.authority.local_addrs().first()?);
    let probe = Probe::a(PROBE_ADDRESS, &target.workload.suffix).ok()?;
    (at != target.server).then_some((at, probe))
}

/// Asks now and then until the trial is over; `None` if there is no asking from here.
fn ask_until(over: &AtomicBool, live: &Live, mut ask: impl FnMut(u16) -> io::Result<bool>) -> Option<Probed> {
    let before = live.counts().sent;
    let mut probed = Probed::default();
    for id in (0..=u16::MAX).cycle() {
        thread::park_timeout(PAUSE);
        // A hosted AuthDNS works while the Measurer's threads do.
        if live.counts().sent == before && !over.load(Ordering::Relaxed) {
            continue;
        }
        let answered = !over.load(Ordering::Relaxed) && ask(id).ok()?;
        if over.load(Ordering::Relaxed) {
            break;
        }
        probed.asked += 1;
        probed.late += u64::from(!answered);
    }
    Some(probed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_before_the_first_query_or_after_the_last() {
        let (over, live) = (AtomicBool::new(true), Live::default());
        let ask = |_| -> io::Result<bool> { panic!("asked") };
        assert_eq!(ask_until(&over, &live, ask), Some(Probed::default()));
    }
}
