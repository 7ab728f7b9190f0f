//! The labs that exist, and the counters of their devices.

use std::io;

use serde::Serialize;
use sys::link::Device;

use super::mark::{self, Found, Mark, look, namespace};
use super::needs;
use super::plan::{End, Role};

/// A lab as it is found.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The name of the lab.
    pub name: String,
    /// Whether it stays, ends with a process, or is left over from one.
    pub state: State,
    /// The devices that are there, six in a complete lab.
    pub devices: Vec<DeviceStatus>,
}

/// How long a lab lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Until it is taken down.
    Up,
    /// As long as the process of this number.
    Temporary {
        /// The process ID of the command that made the lab.
        pid: u32,
    },
    /// Its process is gone, or a part of it: the next `up` or `down` removes it.
    Stale,
}

/// A device of a lab and what it has counted.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceStatus {
    /// The network namespace that holds this end.
    pub namespace: String,
    /// The end of the link.
    #[serde(flatten)]
    pub end: End,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that it dropped: on the way out those for which its peer had no room.
    pub dropped: u64,
}

/// All labs of this machine.
///
/// # Errors
/// As with [`super::check`], or a namespace cannot be entered.
pub fn all() -> io::Result<Vec<Status>> {
    needs::check()?;
    mark::labs()?.into_iter().map(one).collect()
}

fn one(name: String) -> io::Result<Status> {
    let (mut marks, mut devices) = (Vec::new(), Vec::new());
    for role in Role::ALL {
        let inside = namespace(&name, role);
        if let Found::Ours(mark) = look(&inside)? {
            marks.push(mark);
            // A lab that is removed meanwhile has none.
            devices.extend(sys::netns::within(&inside, || device_status(&inside, role)).unwrap_or_default());
        }
    }
    let state = match marks.as_slice() {
        [Mark { owner: None, .. }, _, _] => State::Up,
        marks => match marks.iter().find_map(|mark| mark.owner) {
            Some(owner) if owner.is_alive() => State::Temporary { pid: owner.pid },
            _ => State::Stale,
        },
    };
    Ok(Status { name, state, devices })
}

/// The devices of a role that are there, in its namespace.
fn device_status(inside: &str, role: Role) -> Vec<DeviceStatus> {
    let ends = role.peers().map(|towards| End::new(role, towards));
    ends.filter_map(|end| {
        // One that is not there yet, or no more, has no counters.
        let counters = Device::named(&end.device).and_then(|device| device.statistics()).ok()?;
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        Some(DeviceStatus {
            namespace: inside.to_owned(),
            end,
            received: count("link.rx_packets"),
            sent: count("link.tx_packets"),
            dropped: count("link.rx_dropped") + count("link.tx_dropped"),
        })
    })
    .collect()
}
