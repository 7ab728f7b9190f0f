//! The mark that says that a namespace belongs to a lab. The mark is the alias of the loopback device: it
//! disappears with the namespace, and a namespace that somebody else makes under the same name does not have
//! it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sys::link::Device;
use sys::netns;

use super::plan::Role;

/// The device that has the mark.
pub(super) const LOOPBACK: &str = "lo";
const PREFIX: &str = "sextant lab ";
/// The namespaces that a process has; this is the network's.
const OWN_NAMESPACE: &str = "/proc/self/ns/net";

/// What the mark of a namespace says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The name of the lab.
    pub lab: String,
    /// The process with which it ends; none: it stays until it is taken down.
    pub owner: Option<Owner>,
}

/// A process, told from a later one of the same number by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process ID.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`proc(5)`, field 22 of stat).
    started_ticks: u64,
}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub(crate) fn this_process() -> io::Result<Self> {
        let pid = std::process::id();
        started_ticks(pid)
            .map(|started_ticks| Self { pid, started_ticks })
            .ok_or_else(|| io::Error::other(format!("cannot read /proc/{pid}/stat")))
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }
}

fn started_ticks(pid: u32) -> Option<u64> {
    const FIELDS_BETWEEN_NAME_AND_START: usize = 19;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, but the last parenthesis ends it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(FIELDS_BETWEEN_NAME_AND_START)?.parse().ok()
}

impl Mark {
    /// Nobody will miss it: the process it belonged to is gone.
    pub(crate) fn is_stale(&self) -> bool {
        self.owner.is_some_and(|owner| !owner.is_alive())
    }

    fn parse(alias: &str) -> Option<Self> {
        let mut words = alias.strip_prefix(PREFIX)?.split(' ');
        let lab = words.next()?.to_owned();
        let owner = match words.next()? {
            "stays" => None,
            "of" => {
                Some(Owner { pid: words.next()?.parse().ok()?, started_ticks: words.next()?.parse().ok()? })
            }
            _ => return None,
        };
        words.next().is_none().then_some(Self { lab, owner })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner {
            None => write!(f, "{PREFIX}{} stays", self.lab),
            Some(Owner { pid, started_ticks }) => {
                write!(f, "{PREFIX}{} of {pid} {started_ticks}", self.lab)
            }
        }
    }
}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No namespace has this name.
    Free,
    /// A file without a namespace: something ended while it made or removed one.
    Debris,
    /// A namespace of a lab.
    Ours(Mark),
    /// A namespace of somebody else.
    Foreign,
}

/// The namespace of a lab's role.
pub fn namespace(lab: &str, role: Role) -> String {
    format!("{lab}-{role}")
}

/// Looks what stands under a name.
///
/// # Errors
/// The namespace cannot be entered.
pub fn look(namespace: &str) -> io::Result<Found> {
    if let Some(nothing) = without_namespace(namespace)? {
        return Ok(nothing);
    }
    let alias = netns::within(namespace, || Device::named(LOOPBACK)?.alias()).flatten();
    match alias {
        Ok(alias) => Ok(Mark::parse(&alias.unwrap_or_default()).map_or(Found::Foreign, Found::Ours)),
        // It may have been removed meanwhile.
        Err(error) => without_namespace(namespace)?.ok_or(error),
    }
}

/// What stands under a name that has no namespace; `None` where it has one.
fn without_namespace(name: &str) -> io::Result<Option<Found>> {
    let Ok(file) = fs::metadata(Path::new(netns::DIRECTORY).join(name)) else {
        return Ok(Some(Found::Free));
    };
    let is_namespace = file.dev() == fs::metadata(OWN_NAMESPACE)?.dev();
    Ok((!is_namespace).then_some(Found::Debris))
}

/// The labs that have at least one marked namespace, each once.
///
/// # Errors
/// The directory of the names cannot be read.
pub fn labs() -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(netns::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut labs = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let lab = Role::ALL.iter().find_map(|role| name.strip_suffix(role.name())?.strip_suffix('-'));
        // One that vanishes meanwhile, or cannot be entered, is nobody's.
        if let (Some(lab), Ok(Found::Ours(mark))) = (lab, look(name))
            && mark.lab == lab
        {
            labs.push(mark.lab);
        }
    }
    labs.sort();
    labs.dedup();
    Ok(labs)
}

/// Makes a namespace that has its mark before it has its name, so that none of ours is ever without.
///
/// # Errors
/// It cannot be made; the message says why.
pub fn make(namespace: &str, mark: &Mark) -> io::Result<()> {
    netns::make(namespace, || {
        let loopback = Device::named(LOOPBACK)?;
        loopback.set_alias(&mark.to_string())?;
        loopback.set_up()
    })
}

/// Changes the mark.
///
/// # Errors
/// The namespace is not there, or the process may not.
pub fn remark(namespace: &str, mark: &Mark) -> io::Result<()> {
    netns::within(namespace, || Device::named(LOOPBACK)?.set_alias(&mark.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_marks_survive_being_written_and_nothing_else_is_one() {
        let owner = Owner::this_process().unwrap();
        for owner in [None, Some(owner)] {
            let mark = Mark { lab: "x-1".into(), owner };
            assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        }
        for other in
            ["", "sextant", "sextant lab x", "sextant lab x of 1", "sextant lab x stays y", "x stays"]
        {
            assert_eq!(Mark::parse(other), None, "{other}");
        }
    }

    #[test]
    fn lb_a_later_process_of_the_same_number_is_another() {
        let this = Owner::this_process().unwrap();
        assert!(this.is_alive());
        let earlier = Owner { started_ticks: this.started_ticks - 1, ..this };
        assert!(Mark { lab: "x".into(), owner: Some(earlier) }.is_stale());
        assert!(!Mark { lab: "x".into(), owner: None }.is_stale());
    }
}
