//! A server's own directory, owned by the user it runs as, gone when it is dropped.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The users that servers run as when the instrument runs as root; the first that exists is taken.
const UNPRIVILEGED_USERS: [&str; 2] = ["nobody", "daemon"];

/// A user by its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name in the user database.
    pub name: String,
    /// The user's number, never 0.
    pub uid: u32,
    /// Its main group's number, never 0.
    pub gid: u32,
}

impl Account {
    /// The user that servers run as; `None` when this process is not root, and they simply run as its user.
    ///
    /// # Errors
    /// This process is root and the user database knows no unprivileged user.
    pub(crate) fn for_servers() -> io::Result<Option<Self>> {
        if !sys::process::is_root() {
            return Ok(None);
        }
        let database = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let account = UNPRIVILEGED_USERS.iter().find_map(|user| find_account(&database, user));
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "no user 'nobody' in /etc/passwd to run servers as");
        account.ok_or_else(missing).map(Some)
    }
}

/// Finds a user that is not root in the text of `/etc/passwd` (passwd(5)).
fn find_account(database: &str, user: &str) -> Option<Account> {
    database.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| *name == user)?.to_owned();
        let uid = fields.nth(1)?.parse().ok().filter(|&uid| uid != 0)?;
        let gid = fields.next()?.parse().ok().filter(|&gid| gid != 0)?;
        Some(Account { name, uid, gid })
    })
}

/// Removes the directories of instruments that were killed before they could: the names tell their processes.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(maker) = name.to_str().and_then(maker) else { continue };
        let gone = !Path::new("/proc").join(maker.to_string()).exists();
        // What belongs to others cannot be removed, and stays.
        if gone && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made a directory of this name: `sextant-LABEL-PROCESS-RANDOM`.
fn maker(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("sextant-")?.rsplitn(3, '-');
    let (_random, process, _label) = (parts.next()?, parts.next()?, parts.next()?);
    process.parse().ok()
}

/// A directory for one server, removed with all that is in it on drop.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    account: Option<Account>,
}

impl Scratch {
    /// Makes a directory below `parent`, or below the directory for temporary files, that only the server may
    /// use.
    ///
    /// # Errors
    /// The directory cannot be made or given to the server's user.
    pub fn new(label: &str, parent: Option<&Path>) -> io::Result<Self> {
        Self::of(Account::for_servers()?, label, parent)
    }

    /// A directory for a server that runs as the user of this process, root too.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(crate) fn of_this_user(label: &str) -> io::Result<Self> {
        Self::of(None, label, None)
    }

    fn of(account: Option<Account>, label: &str, parent: Option<&Path>) -> io::Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        sweep(&parent);
        let directory = tempfile::Builder::new()
            .prefix(&format!("sextant-{label}-{}-", std::process::id()))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(|error| in_context(&error, "cannot make a directory in", &parent))?;
        let scratch = Self { directory, account };
        scratch.give_away(scratch.path())?;
        Ok(scratch)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The user who owns it, if it is not the one this process runs as.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Writes a file into the directory that the server may read and change.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, contents: &[u8]) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, contents).map_err(|error| in_context(&error, "cannot write", &path))?;
        self.give_away(&path)?;
        Ok(path)
    }

    /// Copies a program into the directory when the server's user could not reach it where it is, for example
    /// below root's home; otherwise returns the path as it came.
    ///
    /// # Errors
    /// The program cannot be read or copied.
    pub(crate) fn make_reachable(&self, program: &Path) -> io::Result<PathBuf> {
        let real = program.canonicalize().map_err(|error| in_context(&error, "cannot find", program))?;
        if self.account.is_none() || anybody_may_run(&real) || mode(&real) & 0o111 == 0 {
            // Not the real path: some programs look at the name they are called by.
            return std::path::absolute(program);
        }
        let name = program.file_name().unwrap_or_default();
        let copy = self.path().join(name);
        fs::copy(&real, &copy).map_err(|error| in_context(&error, "cannot copy", program))?;
        fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
        Ok(copy)
    }

    fn give_away(&self, path: &Path) -> io::Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        chown(path, Some(account.uid), Some(account.gid))
            .map_err(|error| in_context(&error, &format!("cannot give to user {}", account.name), path))
    }
}

/// Whether the file and all directories above it are open to every user.
fn anybody_may_run(program: &Path) -> bool {
    mode(program) & 0o005 == 0o005
        && program.ancestors().skip(1).all(|directory| mode(directory) & 0o001 != 0)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode())
}

fn in_context(error: &io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_instruments_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let orphan = parent.path().join("sextant-knot-resolver-4294967295-a1b2c3");
        let foreign = parent.path().join("sextant-notes");
        [&orphan, &foreign].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let first = Scratch::new("dns64d", Some(parent.path())).unwrap();
        let second = Scratch::new("dns64d", Some(parent.path())).unwrap();
        assert!(!orphan.exists() && foreign.exists() && first.path().exists());
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn accounts_are_found_and_root_is_never_taken() {
        let database =
            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\nroots:x:7\n\nbad:x:-1:z\n";
        let nobody = find_account(database, "nobody").unwrap();
        assert_eq!((nobody.uid, nobody.gid), (65534, 65533));
        for other in ["root", "roots", "bad", "nobod", ""] {
            assert_eq!(find_account(database, other), None, "{other}");
        }
    }

    #[test]
    fn the_directory_and_its_files_go_with_it() {
        let scratch = Scratch::new("test", None).unwrap();
        let path = scratch.path().to_owned();
        let file = scratch.write("a.conf", b"text").unwrap();
        assert_eq!(fs::read(file).unwrap(), b"text");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_program_hidden_from_the_servers_user_is_copied() {
        let scratch = Scratch::new("test", None).unwrap();
        let hidden = Scratch::new("hidden", None).unwrap();
        let program = hidden.write("program", b"#!/bin/sh\n").unwrap();
        assert_eq!(
            scratch.make_reachable(&program).unwrap(),
            program,
            "no program is made of a file that is none"
        );
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let reached = scratch.make_reachable(&program).unwrap();
        assert_eq!(reached.starts_with(scratch.path()), sys::process::is_root());
        assert!(scratch.make_reachable(Path::new("/no/such/program")).is_err());
    }
}
