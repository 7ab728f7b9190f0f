//! Which files the process may still open (landlock(7)).

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, make_bitflags,
    path_beneath_rules,
};

use crate::config::Config;

/// Read: random numbers, the authorities that upstream certificates are checked against, what the kernel says
/// of this process and of the processors.
const SYSTEM: [&str; 9] = [
    "/dev/urandom",
    "/proc/self",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
/// Variables that name other places of those authorities.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// All rights of files that are given up; those that a kernel does not know cannot be.
const KNOWN: ABI = ABI::V5;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AllowedPaths {
    /// Files, and directories with all below them, that can be read.
    read: Vec<PathBuf>,
    /// Directories in which sockets are made and removed.
    sockets: Vec<PathBuf>,
}

impl AllowedPaths {
    /// What a configuration needs now and at a reload: whole directories, because files are renewed by
    /// replacing them.
    pub(super) fn by(config: &Config, file: &Path) -> Self {
        let tls = config.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
        let files =
            tls.chain(&config.upstream_roots).chain(&config.anchors).map(PathBuf::as_path).chain([file]);
        let system = SYSTEM.iter().map(PathBuf::from);
        let named = AUTHORITIES.iter().filter_map(std::env::var_os).map(PathBuf::from);
        Self {
            read: files.flat_map(around).chain(system).chain(named).collect(),
            sockets: config.control.iter().filter_map(|path| directory(path)).collect(),
        }
    }
}

/// The directory that a file is in, and the one it really is in: certificates are often links into another.
fn around(file: &Path) -> Vec<PathBuf> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    [file, &real].map(|file| directory(file).unwrap_or_else(|| file.to_owned())).into()
}

/// The directory of a file, unless that is the root of all.
fn directory(file: &Path) -> Option<PathBuf> {
    let directory = match file.parent()? {
        parent if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let is_root = directory.canonicalize().is_ok_and(|real| real.parent().is_none());
    (!is_root).then(|| directory.to_owned())
}

/// Gives up all other files, for this thread and those it starts. Says what was done, or why it could not be.
pub(super) fn give_up(needed: &AllowedPaths) -> Result<String, String> {
    let all = AccessFs::from_all(KNOWN);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let sockets = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
    match restrict(needed, all, read, sockets).map_err(|error| error.to_string())? {
        RulesetStatus::FullyEnforced => Ok("only those of the configuration can be opened".to_owned()),
        RulesetStatus::PartiallyEnforced => {
            Ok("only those of the configuration can be opened, as far as this kernel knows how".to_owned())
        }
        RulesetStatus::NotEnforced => Err("this kernel has no landlock".to_owned()),
    }
}

fn restrict(
    needed: &AllowedPaths,
    all: BitFlags<AccessFs>,
    read: BitFlags<AccessFs>,
    sockets: BitFlags<AccessFs>,
) -> Result<RulesetStatus, landlock::RulesetError> {
    let restricted = Ruleset::default()
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(&needed.read, read))?
        .add_rules(path_beneath_rules(&needed.sockets, sockets))?
        .restrict_self()?;
    Ok(restricted.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_where_files_are() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["archive", "live"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("archive/cert1.pem"), "").unwrap();
        std::os::unix::fs::symlink("../archive/cert1.pem", at("live/cert.pem")).unwrap();
        assert_eq!(around(&at("live/cert.pem")), [at("live"), at("archive").canonicalize().unwrap()]);
        assert_eq!(around(Path::new("/absent.pem")), [PathBuf::from("/absent.pem"), "/absent.pem".into()]);
        assert_eq!(super::directory(Path::new("dns64d.toml")), Some(".".into()));
    }
}
