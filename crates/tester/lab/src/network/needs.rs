//! The programs that make and remove namespaces, and whether this process may use them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Programs that are needed, and the Debian packages they come in.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("unshare", "util-linux"),
    ("taskset", "util-linux"),
];
/// Capabilities that are needed, with their bits (`linux/capability.h`).
const CAPABILITIES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// Whether a lab can be made here.
///
/// # Errors
/// `PermissionDenied` with the capabilities that are missing, or `NotFound` with the package of a program.
pub fn check() -> io::Result<()> {
    let missing = missing_capabilities(&std::fs::read_to_string("/proc/self/status")?);
    if !missing.is_empty() {
        let text = format!(
            "network namespaces need {}, which this process lacks: run it as root, for example with sudo",
            missing.join(" and ")
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    match PROGRAMS.iter().find(|(program, _)| find(program.as_ref()).is_none()) {
        Some((program, package)) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the program '{program}' is missing: apt-get install {package}"),
        )),
        None => Ok(()),
    }
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

/// Runs `ip` with what follows; returns what it printed.
///
/// # Errors
/// What it says on standard error.
pub fn ip(arguments: &[&str]) -> io::Result<String> {
    run("ip", arguments, "")
}

/// Runs a program to its end with `input` on its standard input; returns what it printed.
///
/// # Errors
/// It cannot be started or fails; the message has its command line and the first line that it says on
/// standard error.
pub fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<String> {
    let named = |error: &dyn std::fmt::Display| format!("{program} {}: {error}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // When this process is killed, nothing goes on making what the next command removes.
    let mut child = sys::process::die_with_parent(&mut command)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), named(&error)))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends early says why on standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a message");
    Err(io::Error::other(named(&reason.trim())))
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
    fn lb_failures_carry_command_and_reason() {
        let error = run("sh", &["-c", "cat >&2; exit 3"], "no such thing\n").unwrap_err();
        assert_eq!(error.to_string(), "sh -c cat >&2; exit 3: no such thing");
        assert!(run("/nonexistent/ip", &[], "").unwrap_err().to_string().starts_with("/nonexistent/ip"));
        assert!(find("sh".as_ref()).is_some() && find("/nonexistent/sh".as_ref()).is_none());
    }
}
