//! Which files the process may still open, which processes it may reach, and on request which TCP ports
//! (landlock(7)).

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

use super::TcpPorts;
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

/// All rights that are given up; those that a kernel does not know cannot be. The fourth has TCP ports, the
/// sixth (Linux 6.12) signals to other processes and their abstract sockets.
const KNOWN: ABI = ABI::V6;

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

/// Gives up all other files, signals to other processes and their abstract Unix sockets, and with `ports`
/// all other TCP ports, for this thread and the threads that this thread starts. Returns what was given up,
/// or why that was not possible. With `ports`, the kernel must support all of this.
pub(super) fn give_up(needed: &AllowedPaths, ports: Option<&TcpPorts>) -> Result<String, String> {
    let words = match ports {
        None => "only those of the configuration can be opened",
        Some(_) => "only those of the configuration can be opened, and no other TCP ports",
    };
    match restrict(needed, ports).map_err(|error| error.to_string())? {
        RulesetStatus::FullyEnforced => Ok(words.to_owned()),
        RulesetStatus::PartiallyEnforced if ports.is_none() => {
            Ok(format!("{words}, as far as this kernel knows how"))
        }
        RulesetStatus::PartiallyEnforced => {
            Err("the landlock of this kernel cannot do all of it: Linux 6.12 can".to_owned())
        }
        RulesetStatus::NotEnforced => Err("this kernel has no landlock".to_owned()),
    }
}

fn restrict(needed: &AllowedPaths, ports: Option<&TcpPorts>) -> Result<RulesetStatus, RulesetError> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let sockets = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
    let mut rules =
        Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?.scope(Scope::from_all(KNOWN))?;
    if ports.is_some() {
        rules = rules.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let allowed = |ports: &[u16], access: AccessNet| {
        ports.iter().map(|&port| Ok(NetPort::new(port, access))).collect::<Vec<Result<_, RulesetError>>>()
    };
    let bind = ports.map_or(Vec::new(), |ports| allowed(&ports.bind, AccessNet::BindTcp));
    let connect = ports.map_or(Vec::new(), |ports| allowed(&ports.connect, AccessNet::ConnectTcp));
    let restricted = rules
        .create()?
        .add_rules(path_beneath_rules(&needed.read, read))?
        .add_rules(path_beneath_rules(&needed.sockets, sockets))?
        .add_rules(bind)?
        .add_rules(connect)?
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
