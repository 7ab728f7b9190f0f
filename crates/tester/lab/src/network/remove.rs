//! Removes labs: complete labs, incomplete labs, and labs whose process was killed.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;
use sys::link::Device;
use sys::netns;

use super::mark::{self, Found, Mark, look, namespace};
use super::needs;
use super::plan::{End, Role};

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
/// `InvalidInput`: the name; `PermissionDenied`: what is missing; `WouldBlock`: it belongs to a running
/// process; `AlreadyExists`: the namespace of that name is somebody else's; others: what the kernel says.
pub fn down(name: &str) -> io::Result<Removal> {
    super::check_name(name)?;
    needs::check()?;
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
                netns::within(&inside, || devices(role))?;
            }
        }
        netns::remove(&inside)?;
        removed.namespaces.push(inside);
    }
    Ok(removed)
}

/// Removes the devices of a role, in its namespace.
fn devices(role: Role) {
    for towards in role.peers() {
        // One may be gone already, or never have been there.
        let _ = Device::named(&End::new(role, towards).device).and_then(|device| device.remove());
    }
}

/// The processes in a namespace.
fn processes(namespace: &str) -> io::Result<Vec<(u32, String)>> {
    let identity = |file: Metadata| (file.dev(), file.ino());
    let wanted = identity(fs::metadata(Path::new(netns::DIRECTORY).join(namespace))?);
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // One that ends meanwhile is not left.
    let inside =
        |pid: &u32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|at| identity(at) == wanted);
    let name =
        |pid: u32| Some((pid, fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned()));
    Ok(pids.filter(inside).filter_map(name).collect())
}

impl Removal {
    fn add(&mut self, other: Self) {
        self.namespaces.extend(other.namespaces);
        self.left.extend(other.left);
    }
}
