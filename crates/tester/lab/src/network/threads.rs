//! Kernel threads that poll devices (threaded NAPI), each kept on a processor.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use sys::link::Device;
use sys::netns;

use super::LabSpec;
use super::mark::namespace;
use super::plan::{End, Role};

/// How long the kernel may take to start the threads.
const START_PATIENCE: Duration = Duration::from_secs(5);
const START_POLL: Duration = Duration::from_millis(5);

/// Packets that wait before a link when the receiver's ring (256 of them) is full.
const QUEUE_PACKETS: u32 = 10_000;

/// Has threads poll the devices of a role, one for each queue, all on one processor. The caller holds the
/// lock of the labs: the threads are told from those of other devices of the same name by being new.
pub(super) fn pin(spec: &LabSpec, role: Role, cpu: usize) -> io::Result<()> {
    let lab = &spec.name;
    let inside = namespace(lab, role);
    for end in role.peers().map(|towards| End::new(role, towards)) {
        let (device, far) = (&end.device, end.peer());
        // The sender no longer does the receiver's work, and can be ahead of it: without a queue of its own
        // it drops then.
        let queue = || Device::named(&far.device)?.set_queue(QUEUE_PACKETS);
        netns::within(&namespace(lab, far.role), queue)??;
        let before = polling(device)?;
        netns::within_with_sysfs(&inside, || have_threads(device))??;
        let deadline = Instant::now() + START_PATIENCE;
        let threads = loop {
            let new: Vec<u32> = polling(device)?.difference(&before).copied().collect();
            if new.len() >= usize::from(spec.queues) {
                break new;
            }
            if Instant::now() > deadline {
                let (started, queues) = (new.len(), spec.queues);
                let text = format!(
                    "the kernel started {started} threads that poll {device} in {inside}, not one for each of {queues} queues"
                );
                return Err(io::Error::other(text));
            }
            std::thread::sleep(START_POLL);
        };
        for pid in threads {
            sys::cpu::pin_thread(pid, cpu).map_err(|error| {
                let text =
                    format!("keeping the thread {pid} that polls {device} on processor {cpu}: {error}");
                io::Error::new(error.kind(), text)
            })?;
        }
    }
    Ok(())
}

/// Has threads of the kernel poll a device, in its namespace.
fn have_threads(device: &str) -> io::Result<()> {
    let switch = format!("/sys/class/net/{device}/threaded");
    fs::write(&switch, "1").map_err(|error| io::Error::new(error.kind(), format!("{switch}: {error}")))
}

/// The kernel threads that poll devices of that name, in any namespace: `napi/DEVICE-NUMBER`.
fn polling(device: &str) -> io::Result<BTreeSet<u32>> {
    let prefix = format!("napi/{device}-");
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let polls = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(&prefix))
    };
    Ok(pids.filter(polls).collect())
}
