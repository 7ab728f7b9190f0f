//! Names of network namespaces, made and removed as by ip-netns(8): a name is a file in `/run/netns`, on
//! which the namespace is mounted. `ip netns` knows the names that are made here, and the other way round.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{DIRECTORY, check_name, in_thread, mount};
use crate::patience::patiently;

/// The namespace of the thread that reads it.
const OWN: &CStr = c"/proc/thread-self/ns/net";

/// Makes a namespace and gives it a name. `prepare` runs inside, in a thread of its own, before the name is
/// there. If the process is killed meanwhile, the namespace ends with it, and at most an empty file is left.
///
/// # Errors
/// Those of `prepare`; the name is taken; the process may not make namespaces or mount them, or the kernel
/// has none. The message says which namespace and which step.
///
/// # Panics
/// If `prepare` does.
pub fn make(name: &str, prepare: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    check_name(name)?;
    let path = Path::new(DIRECTORY).join(name);
    in_thread(leave_for_a_new_one, || prepare().and_then(|()| attach(&path)))
        .flatten()
        .map_err(|error| io::Error::new(error.kind(), format!("network namespace {name}: {error}")))
}

fn leave_for_a_new_one() -> io::Result<()> {
    // SAFETY: the call has no memory to touch.
    crate::check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop).map_err(|error| {
        let what = match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOSYS) => "the kernel has none (CONFIG_NET_NS)".to_owned(),
            Some(libc::EPERM) => {
                format!("making one is not allowed ({error}): run as root, outside of a container")
            }
            _ => format!("making one: {error}"),
        };
        io::Error::new(error.kind(), what)
    })
}

/// Gives the namespace of the calling thread a name.
fn attach(path: &Path) -> io::Result<()> {
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("mounting it at {}: {error}", path.display()))
    };
    DirBuilder::new().recursive(true).mode(0o755).create(DIRECTORY).map_err(failed)?;
    let directory = File::open(DIRECTORY).map_err(failed)?;
    lock(&directory).map_err(failed)?;
    share_directory().map_err(failed)?;
    OpenOptions::new().write(true).create_new(true).mode(0o000).open(path).map_err(failed)?;
    mount(OWN, &terminated(path)?, c"none", libc::MS_BIND).map_err(|error| {
        // Nothing is mounted on it.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

/// Takes the lock of the directory, which iproute2 takes, too: two at once would mount it twice.
fn lock(directory: &File) -> io::Result<()> {
    let is_taken = |error: &TryLockError| matches!(error, TryLockError::WouldBlock);
    patiently(is_taken, || directory.try_lock()).map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "another process holds its lock and does not end")
        }
    })
}

/// Lets what is mounted in the directory appear in other mount namespaces, too. For that the directory must
/// be a mount itself.
fn share_directory() -> io::Result<()> {
    let directory = terminated(Path::new(DIRECTORY))?;
    let share = || mount(c"", &directory, c"none", libc::MS_SHARED | libc::MS_REC);
    match share() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            mount(&directory, &directory, c"none", libc::MS_BIND | libc::MS_REC)?;
            share()
        }
        done => done,
    }
}

/// Removes a name. The namespace ends with its name, or with the last process inside.
///
/// # Errors
/// There is no such name, or it may not be removed; the message says which.
pub fn remove(name: &str) -> io::Result<()> {
    check_name(name)?;
    let path: PathBuf = Path::new(DIRECTORY).join(name);
    let mounted = terminated(&path)?;
    // Nothing is mounted on the file where somebody was killed while making the namespace.
    // SAFETY: a string with its end.
    let _ = unsafe { libc::umount2(mounted.as_ptr(), libc::MNT_DETACH) };
    fs::remove_file(&path).map_err(|error| {
        let text = format!("network namespace {name}: removing {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

fn terminated(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
