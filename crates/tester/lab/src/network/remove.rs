//! Removes labs: complete labs, incomplete labs, and labs whose process was killed.

use std::fs;
use std::io;

use serde::Serialize;

use super::mark::{self, Found, Mark, look, namespace};
use super::plan::{End, Role};
use super::tools;

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// The namespaces, with all devices in them.
    pub namespaces: Vec<String>,
    /// Processes that were still inside, with their names. They go on, without a network.
    pub left: Vec<(u32, String)>,
}

/// Removes the lab of that name if there is one, and every lab whose process was killed.
///
/// # Errors
/// `InvalidInput`: the name; `PermissionDenied`, `NotFound`: what is missing; `WouldBlock`: it belongs to a
/// running process; `AlreadyExists`: the namespace of that name is somebody else's; others: what `ip` says.
pub fn down(name: &str) -> io::Result<Removal> {
    super::check_name(name)?;
    tools::check()?;
    let _lock = super::lock()?;
    let mut removed = stale()?;
    let mut foreign = None;
    for inside in Role::ALL.map(|role| namespace(name, role)) {
        match look(&inside)? {
            Found::Ours(Mark { owner: Some(owner), .. }) => return Err(super::temporary(name, owner)),
            Found::Foreign => foreign = Some(inside),
            _ => {}
        }
    }
    removed.add(lab(name)?);
    match foreign {
        Some(foreign) if removed.namespaces.is_empty() => Err(super::not_ours(&foreign)),
        _ => Ok(removed),
    }
}

/// Removes the labs whose process is gone. The caller holds the lock.
pub(super) fn stale() -> io::Result<Removal> {
    let mut removed = Removal::default();
    for name in mark::labs()? {
        let is_stale = Role::ALL
            .into_iter()
            .any(|role| matches!(look(&namespace(&name, role)), Ok(Found::Ours(mark)) if mark.is_stale()));
        if is_stale {
            removed.add(lab(&name)?);
        }
    }
    Ok(removed)
}

/// Removes what there is of a lab and is ours. The caller holds the lock.
pub(super) fn lab(name: &str) -> io::Result<Removal> {
    let mut removed = Removal::default();
    for role in Role::ALL {
        let inside = namespace(name, role);
        match look(&inside)? {
            Found::Free | Found::Foreign => continue,
            Found::Debris => {}
            Found::Ours(_) => {
                removed.left.extend(processes(&inside)?);
                // A process inside would keep the devices, so they go first, and with each its other end.
                for towards in role.peers() {
                    let device = End::new(role, towards).device;
                    // It may be gone already, or never have been there.
                    let _ = tools::ip(&["-n", &inside, "link", "delete", "dev", &device]);
                }
            }
        }
        namespace_name(&inside)?;
        removed.namespaces.push(inside);
    }
    Ok(removed)
}

/// Removes a name, and with the last process inside the namespace.
pub(super) fn namespace_name(namespace: &str) -> io::Result<()> {
    tools::ip(&["netns", "delete", namespace]).map(drop)
}

fn processes(namespace: &str) -> io::Result<Vec<(u32, String)>> {
    let pids = tools::ip(&["netns", "pids", namespace])?;
    let pids = pids.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
    // One that ends meanwhile is not left.
    let name =
        |pid: u32| Some((pid, fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned()));
    Ok(pids.filter_map(name).collect())
}

impl Removal {
    fn add(&mut self, other: Self) {
        self.namespaces.extend(other.namespaces);
        self.left.extend(other.left);
    }
}
