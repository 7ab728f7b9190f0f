//! Whether this process may make labs, and where the programs are that run in them.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

/// Capabilities that are needed, with their bits (`linux/capability.h`).
const CAPABILITIES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// Whether a lab can be made here.
///
/// # Errors
/// `PermissionDenied` with the capabilities that are missing.
pub fn check() -> io::Result<()> {
    let missing = missing_capabilities(&std::fs::read_to_string("/proc/self/status")?);
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "network namespaces need {}, which this process lacks: run it as root, for example with sudo",
        missing.join(" and ")
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The names of the capabilities that are not in the effective set of a `/proc/PID/status`.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect()
}

/// Where a program is: the path given, or the first place in `PATH` that has it.
pub fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_missing_capabilities_are_named() {
        let status = |bits: u64| format!("Name:\tx\nCapEff:\t{bits:016x}\n");
        assert_eq!(missing_capabilities(&status(u64::MAX)), [""; 0]);
        assert_eq!(missing_capabilities(&status(1 << 12)), ["CAP_SYS_ADMIN"]);
        assert_eq!(missing_capabilities("nothing"), ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]);
    }

    #[test]
    fn lb_programs_are_found_by_name_and_path() {
        assert!(find("sh".as_ref()).is_some() && find("/nonexistent/sh".as_ref()).is_none());
    }
}
