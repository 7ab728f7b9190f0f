//! Transfers at a rate: each one begins at its instant, whatever becomes of those before it.
//!
//! Each has a thread of its own and is over within the timeout, so that the rate bounds how many there are.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Builder};
use std::time::Duration;

use engine::pacer::Schedule;
use record::{Transfer, TransferEnd, random};
use sys::{clock, process};

use super::{LOOK, TransferPlan, failure, transfer};
use crate::connection_limits::{FILES_BESIDE, port_range, ports_kept};

/// The most transfers at a time, each with a thread.
const THREADS_MAX: u64 = 2000;
/// The stack of such a thread, in octets.
const STACK_OCTETS: usize = 512 << 10;

/// Refuses more transfers at a time than there can be.
///
/// # Errors
/// How many there would be, how many there can be, and what to do.
pub fn check_rate(plan: &TransferPlan, schedule: &Schedule) -> io::Result<()> {
    let refuse = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    let timeout_s = plan.timeout_ns as f64 / 1e9;
    let most = ((schedule.rate_qps as f64 * timeout_s).ceil() as u64).min(schedule.queries);
    let begun = format!("{} transfers per second that may take {timeout_s} s each", schedule.rate_qps);
    if most > THREADS_MAX {
        return refuse(format!(
            "{begun} are up to {most} at a time, and {THREADS_MAX} can be: lower --rate or --timeout"
        ));
    }
    let (files, needed) = (process::raise_file_limit(), most + FILES_BESIDE);
    if needed > files {
        return refuse(format!(
            "{begun} need {needed} open files, {files} are allowed: lower --rate or --timeout, or raise the limit with \
             'ulimit -n {needed}'"
        ));
    }
    check_ports(plan.server, schedule, most)
}

/// Refuses more connections than there are ports, with those that the kernel keeps.
fn check_ports(server: SocketAddr, schedule: &Schedule, most: u64) -> io::Result<()> {
    let length_ns = schedule.end_ns().saturating_sub(schedule.start_ns);
    let needed = most + ports_kept(server, schedule.rate_qps as f64, length_ns);
    let (first, last) = port_range();
    if needed <= u64::from(last - first) + 1 {
        return Ok(());
    }
    let message = format!(
        "{} transfers per second need {needed} ports with those that the kernel keeps after the end of a connection, \
         and net.ipv4.ip_local_port_range is {first}-{last}: lower --rate",
        schedule.rate_qps
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Begins a transfer at each instant of the schedule, on `CLOCK_MONOTONIC`, until the user ends the program;
/// waits for all and returns them in their order. The IDs depend on the seed.
pub fn at_rate(plan: &TransferPlan, schedule: &Schedule, seed: u64, stop: &AtomicBool) -> Vec<Transfer> {
    let (told, all) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..schedule.queries {
            let due_ns = schedule.due_ns(number);
            if !wait(due_ns, stop) {
                break;
            }
            let instant_ns = due_ns - schedule.start_ns;
            let tell = told.clone();
            let one = move || {
                let id = random::at(seed, 0, number) as u16;
                let made = transfer(plan, id, due_ns..due_ns.saturating_add(plan.timeout_ns), stop);
                let _ = tell.send((number, Transfer { instant_ns, ..made }));
            };
            if let Err(error) = Builder::new().stack_size(STACK_OCTETS).spawn_scoped(scope, one) {
                let failure = Some(failure(TransferEnd::OwnLimit, format!("no thread for it: {error}")));
                let _ = told.send((number, Transfer { instant_ns, failure, ..Transfer::default() }));
            }
        }
    });
    drop(told);
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, transfer)| transfer).collect()
}

/// Waits for an instant; tells whether the user let it come.
fn wait(due_ns: u64, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        match due_ns.checked_sub(clock::monotonic_ns()) {
            Some(left_ns @ 1..) => thread::sleep(LOOK.min(Duration::from_nanos(left_ns))),
            _ => return true,
        }
    }
    false
}
