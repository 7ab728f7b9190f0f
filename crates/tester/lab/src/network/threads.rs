//! Kernel threads that poll devices (threaded NAPI), each kept on a processor.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use super::LabSpec;
use super::mark::namespace;
use super::plan::{End, Role};
use super::tools;

/// How long the kernel may take to start the threads.
const START_PATIENCE: Duration = Duration::from_secs(5);
const START_POLL: Duration = Duration::from_millis(5);

/// Packets that wait before a link when the receiver's ring (256 of them) is full.
const QUEUE_PACKETS: &str = "10000";

/// Has threads poll the devices of a role, one for each queue, all on one processor. The caller holds the
/// lock of the labs: the threads are told from those of other devices of the same name by being new.
pub(super) fn pin(spec: &LabSpec, role: Role, cpu: usize) -> io::Result<()> {
    let lab = &spec.name;
    let inside = namespace(lab, role);
    for end in role.peers().map(|towards| End::new(role, towards)) {
        let (device, far) = (&end.device, end.peer());
        // The sender no longer does the receiver's work, and can be ahead of it: without a queue of its own
        // it drops then.
        let arguments = ["-n", &namespace(lab, far.role), "qdisc", "replace", "dev", &far.device, "root"];
        tools::run("tc", &[&arguments[..], &["pfifo", "limit", QUEUE_PACKETS]].concat(), "")?;
        let before = polling(device)?;
        let script = format!("echo 1 > /sys/class/net/{device}/threaded");
        tools::ip(&["netns", "exec", &inside, "sh", "-c", &script])?;
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
            tools::run("taskset", &["-pc", &cpu.to_string(), &pid.to_string()], "")?;
        }
    }
    Ok(())
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
