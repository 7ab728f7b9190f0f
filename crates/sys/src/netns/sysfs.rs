//! `/sys` for what is in a namespace: it shows the devices of the network namespace in which it was mounted.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{DIRECTORY, enter, in_thread, join, mount};

/// Makes `/sys` show the devices of the calling thread's network namespace to this thread, and to what it
/// starts. They get a mount namespace of their own, in which mounts of others still appear.
///
/// Makes system calls alone, and so may run between fork and exec.
fn show_devices() -> io::Result<()> {
    // SAFETY: the call has no memory to touch.
    crate::check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"", c"/", c"none", libc::MS_SLAVE | libc::MS_REC)?;
    // It may be that none is mounted.
    // SAFETY: a string with its end.
    let _ = unsafe { libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH) };
    // A read-only one that could not be removed takes another read-only one above it.
    let mounted = mount(c"sysfs", c"/sys", c"sysfs", 0)
        .or_else(|_| mount(c"sysfs", c"/sys", c"sysfs", libc::MS_RDONLY));
    match mounted {
        // Without the directory nobody can look.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        mounted => mounted,
    }
}

/// Does something in the namespace, with `/sys` showing the devices there, in a thread of its own, and waits
/// for it.
///
/// # Errors
/// Those of [`enter`], or `/sys` cannot be mounted.
///
/// # Panics
/// If `work` does.
pub fn within_with_sysfs<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let show = || {
        enter(name)?;
        show_devices().map_err(|error| {
            let text = format!("network namespace {name}: mounting a /sys that shows its devices: {error}");
            io::Error::new(error.kind(), text)
        })
    };
    in_thread(show, work)
}

/// Has a program run in the namespace, with `/sys` showing the devices there. If that is not possible,
/// starting the program fails.
pub fn place<'c>(command: &'c mut Command, name: &str) -> &'c mut Command {
    // Only the number of an error comes back from between fork and exec.
    let namespace = File::open(format!("{DIRECTORY}/{name}"))
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL));
    let enter = move || {
        join(namespace.as_ref().map_err(|&code| io::Error::from_raw_os_error(code))?)?;
        show_devices()
    };
    // SAFETY: the closure runs between fork and exec, makes system calls alone, and does not allocate.
    unsafe { command.pre_exec(enter) }
}
