//! The process gives up its user, its capabilities and the means to regain them, when its sockets are open.

use std::ffi::{CStr, CString};
use std::{fs, io};

/// A user of the system with its primary group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The number of its primary group.
    pub gid: u32,
}

/// The most octets that an entry of the user database may have.
const ENTRY_OCTETS_MAX: usize = 1 << 20;

/// The users that a static program knows: the C library reads other databases (nsswitch.conf(5)) by shared
/// objects, which must be of its own version.
const USERS_FILE: &str = "/etc/passwd";

impl Account {
    /// Looks a user up; `None` if there is none of this name. A static program looks into `/etc/passwd`
    /// alone.
    ///
    /// # Errors
    /// The user database cannot be read.
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        if cfg!(target_feature = "crt-static") {
            return match fs::read_to_string(USERS_FILE) {
                Ok(text) => Ok(Self::in_file(&text, name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            };
        }
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let mut octets = vec![0; 4096];
        loop {
            match look_up(&c_name, &mut octets) {
                Err(error)
                    if error.raw_os_error() == Some(libc::ERANGE) && octets.len() < ENTRY_OCTETS_MAX =>
                {
                    octets.resize(octets.len() * 2, 0);
                }
                found => {
                    let account = |(uid, gid)| Self { name: name.to_owned(), uid, gid };
                    return Ok(found?.map(account));
                }
            }
        }
    }

    /// The user of this name in the text of a passwd(5) file.
    fn in_file(text: &str, name: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        // After name and password.
        let mut numbers = line.split(':').skip(2).map(str::parse);
        let (uid, gid) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { name: name.to_owned(), uid, gid })
    }
}

/// User and group number of a name.
fn look_up(name: &CStr, octets: &mut [libc::c_char]) -> io::Result<Option<(u32, u32)>> {
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the name ends with a zero, the room for the entry and for its texts is as long as told.
    let result = unsafe {
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), octets.as_mut_ptr(), octets.len(), &mut found)
    };
    match result {
        0 if found.is_null() => Ok(None),
        // SAFETY: the call succeeded and found an entry, so it filled it.
        0 => Ok(Some(unsafe { ((*found).pw_uid, (*found).pw_gid) })),
        // Some systems say so of a user that is not there (getpwnam(3)).
        libc::ENOENT | libc::ESRCH => Ok(None),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A capability that a server may keep (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Give files to others.
    Chown = 0,
    /// Open files of others.
    DacOverride = 1,
    /// Take on another group.
    SetGid = 6,
    /// Take on another user.
    SetUid = 7,
    /// Listen on ports below 1024.
    NetBindService = 10,
    /// Ask for socket buffers above the limits of the system, and attach XDP programs.
    NetAdmin = 12,
    /// Open AF_XDP sockets.
    NetRaw = 13,
    /// Lock memory above the limit, for AF_XDP sockets.
    IpcLock = 14,
    /// Load programs that handle packets' addresses.
    Perfmon = 38,
    /// Load programs.
    Bpf = 39,
}

/// Whether the calling thread has it, ready to be used.
pub fn has(capability: Capability) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    field(&status, "CapEff:") >> capability as u32 & 1 == 1
}

/// A set of capabilities in the text of `/proc/PID/status` (proc(5)).
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
}

/// The head of capset(2), version 3.
#[repr(C)]
struct Head {
    version: u32,
    pid: i32,
}

/// One half of the sets of capset(2).
#[repr(C)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up all capabilities of the calling thread but those of `keep` that it has. Threads that it starts
/// afterwards have no more; threads that run already are not touched.
///
/// # Errors
/// The kernel refuses, which it does not for fewer capabilities.
pub fn keep_capabilities(keep: &[Capability]) -> io::Result<()> {
    limit_to(bits(keep))
}

/// Gives up these capabilities of the calling thread, as [`keep_capabilities`] does all but some.
///
/// # Errors
/// Likewise.
pub fn drop_capabilities(drop: &[Capability]) -> io::Result<()> {
    limit_to(!bits(drop))
}

fn bits(capabilities: &[Capability]) -> u64 {
    capabilities.iter().fold(0, |bits, &capability| bits | 1u64 << capability as u32)
}

fn limit_to(wanted: u64) -> io::Result<()> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let kept = field(&status, "CapPrm:") & wanted;
    let head = Head { version: VERSION_3, pid: 0 };
    let half = |kept: u64| Sets { effective: kept as u32, permitted: kept as u32, inheritable: 0 };
    let sets = [half(kept), half(kept >> u32::BITS)];
    // SAFETY: both structures have the layout of capset(2), and version 3 has two halves.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const head, sets.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the whole process run as another user, without supplementary groups and without a way back. The
/// calling thread keeps [`Capability::NetBindService`] if it has it; all others lose every capability.
///
/// # Errors
/// `CAP_SETUID` or `CAP_SETGID` is missing; the message names the step.
pub fn become_account(account: &Account) -> io::Result<()> {
    let step = |name: &'static str, result: libc::c_int| {
        crate::check(result)
            .map(drop)
            .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
    };
    // SAFETY: the calls take numbers only; the list of groups is empty. The C library applies each change of
    // user or group to all threads.
    unsafe {
        step("prctl PR_SET_KEEPCAPS", libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
        step("setgroups", libc::setgroups(0, std::ptr::null()))?;
        step("setgid", libc::setresgid(account.gid, account.gid, account.gid))?;
        step("setuid", libc::setresuid(account.uid, account.uid, account.uid))?;
    }
    keep_capabilities(&[Capability::NetBindService])?;
    // SAFETY: it takes numbers only.
    if account.uid != 0 && unsafe { libc::setuid(0) } == 0 {
        return Err(io::Error::other("the way back to root is still open"));
    }
    Ok(())
}

/// The user and group numbers in force.
pub fn user_and_group() -> (u32, u32) {
    // SAFETY: the calls have no preconditions and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Programs that the calling thread or its later threads execute get no privileges from their files
/// (`no_new_privs`).
///
/// # Errors
/// The kernel is older than 3.5.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: it takes numbers only.
    crate::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_up() {
        let root = Account::named("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(Account::named("no-such-user-here").unwrap(), None);
        assert_eq!(Account::named("a\0b").unwrap(), None);
    }

    #[test]
    fn users_are_found_in_the_file() {
        let text = "root:x:0:0:root:/root:/bin/sh\n# a remark\ndns:x:65532:65533::/:\nbad:x:one:1::\n";
        let numbers = |name| Account::in_file(text, name).map(|found| (found.uid, found.gid));
        assert_eq!([numbers("root"), numbers("dns")], [Some((0, 0)), Some((65532, 65533))]);
        assert!(["bad", "d", "", "# a remark", "root:x"].into_iter().all(|name| numbers(name).is_none()));
    }

    #[test]
    fn sets_of_capabilities_are_read() {
        let status = "CapPrm:\t0000000000000400\nCapEff:\tffffffff00000001\n";
        assert_eq!(field(status, "CapPrm:"), 1 << Capability::NetBindService as u32);
        assert_eq!(field(status, "CapEff:") & 1, 1);
        assert_eq!(field(status, "CapInh:"), 0);
    }

    #[test]
    fn a_thread_gives_up_capabilities_without_touching_others() {
        if !has(Capability::NetBindService) {
            testing::skip("root", "this process has no CAP_NET_BIND_SERVICE to keep");
            return;
        }
        std::thread::spawn(|| {
            keep_capabilities(&[Capability::NetBindService]).unwrap();
            assert!(has(Capability::NetBindService) && !has(Capability::SetUid));
            let later = std::thread::spawn(|| has(Capability::SetUid));
            assert!(!later.join().unwrap());
            keep_capabilities(&[Capability::SetUid]).unwrap();
            assert!(!has(Capability::NetBindService) && !has(Capability::SetUid));
        })
        .join()
        .unwrap();
        let had = has(Capability::Bpf);
        std::thread::spawn(move || {
            drop_capabilities(&[Capability::NetBindService]).unwrap();
            assert_eq!(has(Capability::Bpf), had, "one of the upper half");
            assert!(!has(Capability::NetBindService));
            drop_capabilities(&[Capability::Bpf]).unwrap();
            assert!(!has(Capability::Bpf));
        })
        .join()
        .unwrap();
        assert!(has(Capability::NetBindService));
    }
}
