//! Network namespaces with a name (`ip netns`).

mod named;
mod sysfs;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub use named::{make, remove};
pub use sysfs::{place, within_with_sysfs};

/// The directory of the names (ip-netns(8)).
pub const DIRECTORY: &str = "/run/netns";

/// Moves the calling thread into the namespace, for good; threads that it starts afterwards are there too,
/// and so are its new sockets. What it holds already stays where it was made.
///
/// # Errors
/// There is no such namespace, or `CAP_SYS_ADMIN` is missing; the message says which.
pub fn enter(name: &str) -> io::Result<()> {
    join(&open(name)?).map_err(|error| explain(name, &error))
}

fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        let message = format!("{name:?} cannot be the name of a network namespace");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Opens a namespace, to enter it or to put devices into it.
pub(crate) fn open(name: &str) -> io::Result<File> {
    check_name(name)?;
    File::open(format!("{DIRECTORY}/{name}")).map_err(|error| explain(name, &error))
}

fn explain(name: &str, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no network namespace {name} (`ip netns` lists them, `sextant lab` makes some)")
        }
        io::ErrorKind::PermissionDenied => {
            format!("network namespace {name}: entering it needs CAP_SYS_ADMIN; run as root")
        }
        _ => format!("network namespace {name}: {error}"),
    };
    io::Error::new(error.kind(), what)
}

/// Moves the calling thread into an open namespace.
fn join(namespace: &File) -> io::Result<()> {
    // SAFETY: the call has no memory to touch; the descriptor is open.
    crate::check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Calls mount(2); does not allocate.
fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: strings with their ends; no kind that is mounted here has data.
    let mounted =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    crate::check(mounted).map(drop)
}

/// Does something in a thread of its own that has entered a namespace, and waits for it.
fn in_thread<T: Send>(
    enter: impl FnOnce() -> io::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter().map(|()| work()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Does something in the namespace of a process, in a thread of its own, and waits for it.
///
/// # Errors
/// There is no such process, or `CAP_SYS_ADMIN` is missing.
///
/// # Panics
/// If `work` does.
pub fn within_process<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    in_thread(|| join(&namespace), work)
}

/// Does something in the namespace, in a thread of its own, and waits for it.
///
/// # Errors
/// Those of [`enter`].
///
/// # Panics
/// If `work` does.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    in_thread(|| enter(name), work)
}

/// Does it in the namespace if one is given, else at once in the calling thread.
///
/// # Errors
/// Those of [`enter`].
///
/// # Panics
/// Likewise.
pub fn inside<T: Send>(name: Option<&str>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    match name {
        Some(name) => within(name, work),
        None => Ok(work()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = within("no-such-namespace", || ()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("no-such-namespace"));
        assert_eq!(enter("../net").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
