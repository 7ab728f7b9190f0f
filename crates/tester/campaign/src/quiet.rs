//! Waits until the machine is quiet, not longer than all waits of a measurement may take together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::quiet::{LOOK_NS, Load, Look, is_look_due, judge, wait_max_ns};
use lab::observe::LoadMeter;
use record::Trial;
use record::number::brief_percent;

use crate::load_probe::read_beside;
use crate::progress::Progress;
use crate::target::Target;

/// Between two looks at a machine that is not quiet.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits for a quiet machine, and knows how long it waited in the measurement so far.
#[derive(Debug)]
pub(crate) struct QuietWait {
    waited_ns: u64,
    max_ns: u64,
}

impl QuietWait {
    /// For a measurement whose trials take about so long.
    pub fn new(measurement: Duration) -> Self {
        let measurement_ns = u64::try_from(measurement.as_nanos()).unwrap_or(u64::MAX);
        Self { waited_ns: 0, max_ns: wait_max_ns(measurement_ns) }
    }

    /// Waits before a trial that follows `last` if that is due; how long, in seconds.
    pub fn before_trial(
        &mut self,
        last: Option<&Trial>,
        target: &Target,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> f64 {
        if self.waited_ns >= self.max_ns || !is_look_due(last, &target.limits) {
            return 0.0;
        }
        let (began, before_ns) = (Instant::now(), self.waited_ns);
        let mut heaviest = None;
        while let Look::Loaded(load) = look(target, stop) {
            self.waited_ns = before_ns + began.elapsed().as_nanos() as u64;
            progress.note(&waiting(&load, self.waited_ns, self.max_ns));
            heaviest = heaviest.into_iter().chain([load]).max_by(|a, b| total(a).total_cmp(&total(b)));
            if self.waited_ns >= self.max_ns || !pause(stop) {
                break;
            }
        }
        let Some(heaviest) = heaviest else { return 0.0 };
        let waited = began.elapsed();
        self.waited_ns = before_ns + waited.as_nanos() as u64;
        let seconds = waited.as_secs_f64();
        progress.say(&format!("  waited        {seconds:.0} s for a quiet machine: {}", taken(&heaviest)));
        seconds
    }
}

/// The load while the Tester keeps every processor busy that it may use, behind all others: the hypervisor
/// takes little from an idle machine.
fn look(target: &Target, stop: &AtomicBool) -> Look {
    let until = Instant::now() + Duration::from_nanos(LOOK_NS);
    let meter = LoadMeter::between_trials(&target.pids);
    let ((), samples) = read_beside(&meter, || {
        thread::scope(|scope| {
            for cpu in sys::cpu::available() {
                scope.spawn(move || {
                    // Where the kernel refuses either, the look is less exact, and still a look.
                    let _ = sys::cpu::pin(cpu);
                    sys::cpu::give_way();
                    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
        });
    });
    judge(&samples, &target.limits)
}

/// Whether the pause came to its end.
fn pause(stop: &AtomicBool) -> bool {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(50));
    }
    !stop.load(Ordering::Relaxed)
}

fn total(load: &Load) -> f64 {
    load.steal_pct + load.other_programs_pct
}

/// For example `waiting for a quiet machine: the hypervisor takes 22 %, 12 s of at most 120 s`.
fn waiting(load: &Load, waited_ns: u64, max_ns: u64) -> String {
    let seconds = |ns: u64| ns / 1_000_000_000;
    let (waited_s, most_s) = (seconds(waited_ns), seconds(max_ns));
    format!("waiting for a quiet machine: {}, {waited_s} s of at most {most_s} s", taken(load))
}

/// Who takes how much of a processor.
fn taken(load: &Load) -> String {
    let named = [("the hypervisor takes", load.steal_pct), ("other programs take", load.other_programs_pct)];
    let named = named.iter().filter(|(_, pct)| *pct >= 1.0);
    let named: Vec<String> = named.map(|(who, pct)| format!("{who} {}", brief_percent(*pct))).collect();
    format!("{} of a processor", named.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_the_processors_is_said() {
        let load = |steal_pct, other_programs_pct| Load { steal_pct, other_programs_pct };
        let line = waiting(&load(22.0, 0.0), 12_400_000_000, 120_000_000_000).replace('\u{a0}', " ");
        assert_eq!(
            line,
            "waiting for a quiet machine: the hypervisor takes 22 % of a processor, 12 s of at most 120 s"
        );
        let both = taken(&load(22.0, 81.0)).replace('\u{a0}', " ");
        assert_eq!(both, "the hypervisor takes 22 % and other programs take 81 % of a processor");
    }
}
