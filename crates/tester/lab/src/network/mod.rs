//! A lab on one machine: Tester, DUT and AuthDNS as network namespaces, each joined to the other two by a
//! veth pair.
//!
//! [`plan`] fixes devices and addresses, [`build`] makes them, [`mark`] tells ours from other namespaces,
//! [`remove`] takes labs down, whatever state they are in.

mod build;
pub mod mark;
mod needs;
pub mod plan;
pub mod remove;
pub mod status;
mod threads;

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use std::time::{Duration, Instant};

use sys::bpf::Attached;
use sys::link::Device;

pub use needs::{check, find as find_program};
pub use plan::{End, Role};

use mark::{Found, Mark, Owner, look, namespace};

/// The longest name of a lab, in octets.
const NAME_OCTETS_MAX: usize = 32;
/// The most queues of a device that may be asked for; a veth takes up to 4096.
pub const QUEUES_MAX: u16 = 256;
/// How long one command waits for another that makes or removes labs.
const LOCK_PATIENCE: Duration = Duration::from_secs(20);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// What a lab is made like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSpec {
    /// Its name, which begins the names of its namespaces: letters, digits and `-`, at most 32.
    pub name: String,
    /// Receive and transmit queues of every device, 1 to [`QUEUES_MAX`]; by default one for each processor. A
    /// veth chooses the queue of a frame that a program sends by the sender's processor, so that programs on
    /// different processors then share none.
    pub queues: u16,
    /// Messages of several datagrams (`UDP_SEGMENT`, TSO) cross the links whole, which no real wire does;
    /// without it they are taken apart before the link.
    pub segmentation: bool,
    /// Roles whose devices are polled by kernel threads on a processor of their own (threaded NAPI). Without,
    /// the work of the receiver's network stack is done on the sender's processor. Their peers get a queue
    /// (pfifo) before the link.
    pub napi_cpus: Vec<(Role, usize)>,
}

impl Default for LabSpec {
    fn default() -> Self {
        let name = "sextant".into();
        Self { name, queues: queues_for_processors(), segmentation: false, napi_cpus: Vec::new() }
    }
}

/// As many queues as leave each processor that may be used one of its own: the queue is the number of the
/// processor modulo the number of queues.
fn queues_for_processors() -> u16 {
    let highest = sys::cpu::available().last().copied().unwrap_or(0);
    u16::try_from(highest + 1).unwrap_or(QUEUES_MAX).min(QUEUES_MAX)
}

impl LabSpec {
    /// Whether such a lab can be.
    ///
    /// # Errors
    /// `InvalidInput`: what is wrong.
    pub fn check(&self) -> io::Result<()> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        check_name(&self.name)?;
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return invalid(format!("{} queues: there may be 1 to {QUEUES_MAX}", self.queues));
        }
        let usable = sys::cpu::available();
        match self.napi_cpus.iter().find(|(_, cpu)| !usable.contains(cpu)) {
            Some((role, cpu)) => invalid(format!(
                "processor {cpu} for the network stack of {role} may not be used; usable are {usable:?}"
            )),
            None => Ok(()),
        }
    }
}

/// A name goes into the names of namespaces and into their marks.
fn check_name(name: &str) -> io::Result<()> {
    let fits = (1..=NAME_OCTETS_MAX).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-');
    if fits {
        return Ok(());
    }
    let text = format!(
        "'{name}' is no name for a lab: letters, digits and '-', at most {NAME_OCTETS_MAX}, not beginning with '-'"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// A lab that is up. One that [`Lab::up`] made is removed when this is dropped, unless it was told to stay.
#[derive(Debug, PartialEq, Eq)]
pub struct Lab {
    name: String,
    /// Whether it is removed with this value.
    ours: bool,
}

impl Lab {
    /// Makes a lab, after removing those whose process was killed.
    ///
    /// # Errors
    /// - `InvalidInput`: the specification cannot be met;
    /// - `PermissionDenied`: the capabilities that are missing;
    /// - `AlreadyExists`: there is a lab, or a namespace of somebody else, of that name;
    /// - others: what the kernel says. Nothing is left behind then.
    pub fn up(spec: &LabSpec) -> io::Result<Self> {
        spec.check()?;
        check()?;
        let _lock = lock()?;
        remove::stale()?;
        for role in Role::ALL {
            check_free(&namespace(&spec.name, role), &spec.name)?;
        }
        if let Err(error) = build::all(spec) {
            // Whatever cannot be removed now is stale when this process has ended: the next lab removes it.
            let _ = remove::lab(&spec.name);
            return Err(error);
        }
        Ok(Self { name: spec.name.clone(), ours: true })
    }

    /// The lab of that name, if it is up and complete; dropping it changes nothing.
    ///
    /// # Errors
    /// `PermissionDenied` as with [`Lab::up`]; `WouldBlock`: it belongs to another process and ends with it;
    /// others: what the kernel says.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        check_name(name)?;
        check()?;
        for role in Role::ALL {
            match look(&namespace(name, role))? {
                Found::Ours(mark) if mark.lab == name => match mark.owner {
                    Some(owner) if owner.is_alive() => return Err(temporary(name, owner)),
                    Some(_) => return Ok(None),
                    None => {}
                },
                _ => return Ok(None),
            }
        }
        Ok(Some(Self { name: name.to_owned(), ours: false }))
    }

    /// Lets the lab outlive this process.
    ///
    /// # Errors
    /// The marks cannot be changed; the lab is removed.
    pub fn stay(mut self) -> io::Result<Self> {
        let mark = Mark { lab: self.name.clone(), owner: None };
        for role in Role::ALL {
            mark::remark(&namespace(&self.name, role), &mark)?;
        }
        self.ours = false;
        Ok(self)
    }

    /// The name of the lab, which its namespaces begin with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network namespace of a role.
    pub fn namespace(&self, role: Role) -> String {
        namespace(&self.name, role)
    }

    /// The end in `role` of the link to `towards`: device and addresses.
    pub fn end(&self, role: Role, towards: Role) -> End {
        End::new(role, towards)
    }

    /// A program that will run in the namespace of a role, with `/sys` showing the devices there. Its process
    /// is the one that is spawned: signals and exit code are the program's.
    pub fn command(&self, role: Role, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        sys::netns::place(&mut command, &self.namespace(role));
        command
    }
}

impl Lab {
    /// Puts an XDP program that lets all pass on a device, for as long as the result is held and the process
    /// lives. A veth takes the frames that its peer sends by `XDP_TX` only with a program of its own (in
    /// native mode; NAPI by GRO is not enough), and `XDP_TX` answers to a Tester on sockets vanish without.
    /// Labs are made without it: no other program could then be attached, and frames from sockets cost a copy
    /// each.
    ///
    /// # Errors
    /// XDP is not available here, or another program is on the device; the message says which.
    pub fn attach_pass(&self, role: Role, towards: Role) -> io::Result<Attached> {
        let device = End::new(role, towards).device;
        sys::netns::within(&self.namespace(role), || {
            sys::bpf::attach_pass(Device::named(&device)?.index, None).map_err(io::Error::other)
        })?
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.ours {
            // Likewise.
            let _ = lock().and_then(|_lock| remove::lab(&self.name));
        }
    }
}

fn temporary(name: &str, owner: Owner) -> io::Error {
    let text =
        format!("the lab '{name}' belongs to process {} and ends with it: choose another --name", owner.pid);
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

fn check_free(namespace: &str, lab: &str) -> io::Result<()> {
    match look(namespace)? {
        Found::Free => Ok(()),
        Found::Debris => sys::netns::remove(namespace),
        Found::Ours(Mark { owner: Some(owner), .. }) => Err(temporary(lab, owner)),
        Found::Ours(_) => {
            let text = format!("the lab '{lab}' is up already: sextant lab down --name {lab} removes it");
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
        Found::Foreign => Err(not_ours(namespace)),
    }
}

fn not_ours(namespace: &str) -> io::Error {
    let text = format!(
        "there is a network namespace '{namespace}' that is not a lab's, and is left alone: choose another --name"
    );
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// Held while labs are made or removed, by one process of the machine at a time.
struct Lock {
    _listener: UnixListener,
}

/// Waits for the lock. An abstract socket address is free again however its holder ends.
fn lock() -> io::Result<Lock> {
    let address = SocketAddr::from_abstract_name("sextant-lab")?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(Lock { _listener: listener }),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(_) if Instant::now() > deadline => {
                let text = "another process is making or removing a lab and does not end";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(_) => std::thread::sleep(LOCK_POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_what_cannot_be_a_lab_is_refused_with_the_reason() {
        let refused = |spec: LabSpec| {
            let error = spec.check().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            error.to_string()
        };
        for name in ["", "-x", "a/b", "a b", &"x".repeat(33)] {
            assert!(
                refused(LabSpec { name: name.into(), ..LabSpec::default() }).contains("no name for a lab")
            );
        }
        let text = refused(LabSpec { queues: 0, ..LabSpec::default() });
        assert!(text.contains("1 to 256"), "{text}");
        let text = refused(LabSpec { napi_cpus: vec![(Role::Dut, 8000)], ..LabSpec::default() });
        assert!(text.contains("processor 8000 for the network stack of dut"), "{text}");
        LabSpec::default().check().unwrap();
    }

    #[test]
    fn lb_the_lock_is_free_again_when_its_holder_is_gone() {
        drop(lock().unwrap());
        drop(lock().unwrap());
    }
}
