//! What the process gives up: files, capabilities, its user, system calls.
//!
//! The order matters. Files ([`before_start`]) are given up before any other thread runs, since landlock
//! binds the calling thread and those it starts. The user and the system calls ([`after_start`]) are given up
//! when all sockets are open, for all threads at once. Each step says what it did, or why it could not. A
//! user that was asked for and cannot be taken on stops the program, and so does any step that cannot be done
//! wholly where the sandbox is required.

mod calls;
mod files;
mod ports;

use std::fmt;
use std::io;
use std::path::Path;

use sys::privileges::{Account, Capability};

use crate::config::{Config, Process, Sandbox};
pub use ports::TcpPorts;

/// A step and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was given up: `files`, `capabilities`, `user` or `calls`.
    pub name: &'static str,
    /// Whether it was given up.
    pub done: bool,
    /// What was done, or why it could not be.
    pub words: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.words)
    }
}

impl Step {
    fn new(name: &'static str, result: Result<String, String>) -> Self {
        let done = result.is_ok();
        Self { name, done, words: result.unwrap_or_else(|reason| reason) }
    }
}

/// The user that the configuration names.
///
/// # Errors
/// One line: there is no such user, or this process may not take it on.
pub fn account(config: &Config) -> Result<Option<Account>, String> {
    let Some(name) = &config.process.user else { return Ok(None) };
    let account = Account::named(name)
        .map_err(|error| format!("process.user: the users cannot be read: {error}"))?
        .ok_or_else(|| format!("process.user '{}': there is no such user", name.escape_debug()))?;
    let (uid, _) = sys::privileges::user_and_group();
    let able = sys::privileges::has(Capability::SetUid) && sys::privileges::has(Capability::SetGid);
    if uid != account.uid && !able {
        return Err(format!(
            "process.user '{name}': needs CAP_SETUID and CAP_SETGID: start as root, or leave the key out"
        ));
    }
    Ok(Some(account))
}

/// Gives up files and capabilities that are not needed even to open the sockets. To be called in the main
/// thread before it starts any other.
///
/// # Errors
/// The sandbox is required, and something cannot be given up; one line.
pub fn before_start(config: &Config, file: &Path, account: Option<&Account>) -> Result<Vec<Step>, String> {
    let sandbox = config.process.sandbox;
    let mut steps = Vec::new();
    if sandbox.is_on() {
        let ports = (sandbox == Sandbox::Required).then(|| TcpPorts::by(config));
        steps
            .push(Step::new("files", files::give_up(&files::AllowedPaths::by(config, file), ports.as_ref())));
    }
    if sandbox.is_on() || account.is_some() {
        steps.push(Step::new("capabilities", limit_capabilities(config, account)));
    }
    enough(sandbox, steps)
}

/// The steps, unless one of them failed and all are required.
fn enough(sandbox: Sandbox, steps: Vec<Step>) -> Result<Vec<Step>, String> {
    match steps.iter().find(|step| !step.done) {
        Some(step) if sandbox == Sandbox::Required => {
            Err(format!("process.sandbox is required and cannot be applied: {step}"))
        }
        _ => Ok(steps),
    }
}

/// Becomes the user, and gives up system calls, in all threads. To be called when all sockets are open.
///
/// # Errors
/// The user could not be taken on, or something cannot be given up that must be; one line.
pub fn after_start(config: &Config, account: Option<&Account>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    if let Some(account) = account {
        let words = become_account(account)
            .map_err(|error| format!("cannot become user '{}': {error}", account.name))?;
        steps.push(Step::new("user", Ok(words)));
    } else if config.process.sandbox.is_on() {
        // The sockets are open. What is kept opens a port below 1024 at a reload.
        let kept = sys::privileges::keep_capabilities(&[Capability::NetBindService]);
        let words = kept.map(|()| "kept CAP_NET_BIND_SERVICE at most".to_owned());
        steps.push(Step::new("capabilities", words.map_err(|error| error.to_string())));
    }
    if config.process.sandbox.is_on() {
        steps.push(Step::new("calls", calls::give_up(config.xdp.is_on())));
    }
    enough(config.process.sandbox, steps)
}

/// Gives up all capabilities of the calling thread: for threads that read the network and open nothing below
/// port 1024. Where the process is still to become another user it does nothing: that takes them from all
/// threads, and ends the program if it succeeds in some only (setuid(2)).
///
/// # Errors
/// The kernel refuses, which it does not for fewer capabilities.
pub fn shed_thread(process: &Process) -> io::Result<()> {
    let Process { user, sandbox } = process;
    let still_to_become = user.is_some() && sys::privileges::has(Capability::SetUid);
    if still_to_become || !(sandbox.is_on() || user.is_some()) {
        return Ok(());
    }
    sys::privileges::keep_capabilities(&[])
}

/// What XDP programs and AF_XDP sockets take, besides `CAP_NET_ADMIN`.
const FOR_XDP: [Capability; 4] =
    [Capability::NetRaw, Capability::IpcLock, Capability::Perfmon, Capability::Bpf];

/// Gives up what XDP programs take, of the calling thread and those that it starts: to be called when they
/// are on their devices.
///
/// # Errors
/// The kernel refuses, which it does not for fewer capabilities.
pub fn after_programs(process: &Process) -> io::Result<()> {
    if process.sandbox.is_on() || process.user.is_some() {
        sys::privileges::drop_capabilities(&FOR_XDP)
    } else {
        Ok(())
    }
}

/// Keeps what opening the sockets takes: low ports, receive buffers above `net.core.rmem_max`, XDP programs,
/// and taking on the user.
fn limit_capabilities(config: &Config, account: Option<&Account>) -> Result<String, String> {
    let mut keep = vec![Capability::NetBindService, Capability::NetAdmin];
    if config.xdp.is_on() {
        keep.extend(FOR_XDP);
    }
    if account.is_some() {
        // A control socket that was left behind belongs to the user, and so shall the new one.
        keep.extend([Capability::Chown, Capability::DacOverride, Capability::SetGid, Capability::SetUid]);
    }
    sys::privileges::keep_capabilities(&keep).map_err(|error| error.to_string())?;
    Ok("kept those that opening the sockets takes, at most".to_owned())
}

fn become_account(account: &Account) -> io::Result<String> {
    let Account { name, uid, gid } = account;
    if sys::privileges::user_and_group().0 == *uid && *uid != 0 {
        return Ok(format!("already {name} ({uid})"));
    }
    sys::privileges::become_account(account)?;
    let low_ports = if sys::privileges::has(Capability::NetBindService) {
        "a reload may open ports below 1024"
    } else {
        "a reload may not open ports below 1024"
    };
    Ok(format!("became {name} ({uid}:{gid}); {low_ports}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_a_required_sandbox_does_not_fail_open() {
        let steps = || {
            let missing = Err("this kernel has no landlock".to_owned());
            vec![Step::new("calls", Ok("gone".to_owned())), Step::new("files", missing)]
        };
        let error = enough(Sandbox::Required, steps()).unwrap_err();
        assert!(
            error.ends_with("files: this kernel has no landlock") && error.lines().count() == 1,
            "{error}"
        );
        assert_eq!(enough(Sandbox::On, steps()), Ok(steps()));
    }
}
