//! Why AF_XDP cannot be used here.

use std::fmt;
use std::io;

use super::socket::{Failed, Step};
use crate::bpf::{ALL_CAPABILITIES, BpfError, MissingCapabilities};
use crate::link::PathError;

/// Why the back-end cannot run; the text is one line that says what to do.
#[derive(Debug)]
pub enum XdpError {
    /// The kernel has no AF_XDP, or is too old.
    Kernel(io::Error),
    /// Capabilities that the process does not have (capabilities(7)).
    Capabilities(Vec<&'static str>),
    /// There is no way to the server over Ethernet.
    Path(PathError),
    /// The program that takes the answers cannot be loaded or attached.
    Program(BpfError),
    /// The sources asked for are wrong, or there are not so many.
    Sources(String),
    /// A source port cannot be taken.
    Port(u16, io::Error),
    /// Each lane needs a receive queue of its own.
    Queues {
        /// The device.
        device: String,
        /// The queues it has.
        queues: usize,
        /// The lanes.
        lanes: usize,
    },
    /// The process may not lock so much memory.
    Memory {
        /// What one queue needs, in octets.
        octets: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// The socket cannot be bound to the queue.
    Bind {
        /// The device.
        device: String,
        /// Its queue.
        queue: u32,
        /// What the kernel said.
        error: io::Error,
    },
    /// The device takes off the VLAN tags of the VLANs it carries, so that a program cannot tell them apart.
    HiddenTags(String),
    /// A system call failed for another reason: what was being done, and what the kernel said.
    Io(&'static str, io::Error),
}

impl XdpError {
    /// From the step at which a socket for a queue failed.
    pub(super) fn of_queue(device: &str, queue: u32, octets: usize, failed: Failed) -> Self {
        let error = failed.error;
        match (failed.step, error.raw_os_error()) {
            (Step::Socket, Some(libc::EPERM | libc::EACCES)) => Self::Capabilities(vec!["CAP_NET_RAW"]),
            (Step::Socket, Some(libc::EMFILE | libc::ENFILE)) => Self::Io("opening an AF_XDP socket", error),
            (Step::Socket, _) => Self::Kernel(error),
            (Step::Memory, _) => Self::Memory { octets, error },
            (Step::Rings, None) => Self::Kernel(error),
            (Step::Rings, _) => Self::Io("making the rings of an AF_XDP socket", error),
            (Step::Bind, _) => Self::Bind { device: device.to_owned(), queue, error },
        }
    }
}

/// What the kernel means when it does not bind a socket to a queue.
fn bind_reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => "another AF_XDP socket has the queue; end its program",
        Some(libc::ENETDOWN) => "the device is down; 'ip link set DEVICE up'",
        Some(libc::EINVAL) => "the device has no such queue now; 'ethtool -l DEVICE' shows them",
        Some(libc::EOPNOTSUPP) => "the driver cannot share its memory; copy instead",
        Some(libc::ENODEV) => "the device is gone",
        _ => "use sockets, or another device",
    }
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => {
                write!(
                    f,
                    "the kernel has no AF_XDP ({error}); it needs Linux 5.11 or later with CONFIG_XDP_SOCKETS"
                )
            }
            Self::Capabilities(missing) => write!(
                f,
                "AF_XDP needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, and {} missing: run as root, or \
                 'sudo setcap {ALL_CAPABILITIES}+ep PROGRAM'",
                match missing.as_slice() {
                    [one] => format!("{one} is"),
                    several => format!("{} are", several.join(", ")),
                }
            ),
            Self::Path(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
            Self::Sources(message) => f.write_str(message),
            Self::Port(port, error) => {
                write!(f, "source port {port} cannot be taken: {error}; choose other ports")
            }
            Self::Queues { device, queues, lanes } => write!(
                f,
                "{device} has {queues} receive {}, and {lanes} threads need one each: use --threads {queues}, or make \
                 more queues with 'ethtool -L {device}'",
                if *queues == 1 { "queue" } else { "queues" }
            ),
            Self::Memory { octets, error } => write!(
                f,
                "cannot lock {} MiB of memory for one queue: {error}; raise the limit ('ulimit -l') or give \
                 CAP_IPC_LOCK",
                octets >> 20
            ),
            Self::Bind { device, queue, error } => write!(
                f,
                "cannot bind to queue {queue} of {device}: {error} ({})",
                bind_reason(error).replace("DEVICE", device)
            ),
            Self::HiddenTags(device) => write!(
                f,
                "{device} takes off VLAN tags before an XDP program sees them: switch that off ('ethtool -K {device} rxvlan \
                 off')"
            ),
            Self::Io(operation, error) => write!(f, "{operation}: {error}"),
        }
    }
}

impl std::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Path(error) => Some(error),
            Self::Program(error) => Some(error),
            Self::Kernel(error) | Self::Port(_, error) | Self::Io(_, error) => Some(error),
            Self::Memory { error, .. } | Self::Bind { error, .. } => Some(error),
            Self::Capabilities(_) | Self::Sources(_) | Self::Queues { .. } | Self::HiddenTags(_) => None,
        }
    }
}

impl From<PathError> for XdpError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<BpfError> for XdpError {
    fn from(error: BpfError) -> Self {
        match error {
            BpfError::Capabilities(MissingCapabilities(missing)) => Self::Capabilities(missing),
            error => Self::Program(error),
        }
    }
}

impl From<XdpError> for io::Error {
    fn from(error: XdpError) -> Self {
        let kind = match &error {
            XdpError::Capabilities(_) => io::ErrorKind::PermissionDenied,
            XdpError::Kernel(_) => io::ErrorKind::Unsupported,
            XdpError::Sources(_) | XdpError::Queues { .. } => io::ErrorKind::InvalidInput,
            XdpError::Port(_, error) | XdpError::Io(_, error) => error.kind(),
            XdpError::Memory { error, .. } | XdpError::Bind { error, .. } => error.kind(),
            XdpError::Path(_) | XdpError::Program(_) | XdpError::HiddenTags(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_to_do() {
        let of = |step, code| {
            let failed = Failed { step, error: io::Error::from_raw_os_error(code) };
            XdpError::of_queue("eth0", 3, 24 << 20, failed).to_string()
        };
        assert!(of(Step::Socket, libc::EPERM).contains("cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep"));
        assert!(of(Step::Socket, libc::EAFNOSUPPORT).contains("CONFIG_XDP_SOCKETS"));
        assert!(
            of(Step::Memory, libc::ENOBUFS).contains("24 MiB") && of(Step::Memory, 1).contains("ulimit -l")
        );
        assert!(of(Step::Bind, libc::EBUSY).contains("queue 3 of eth0"));
        assert!(of(Step::Bind, libc::ENETDOWN).contains("ip link set eth0 up"));
        let queues = XdpError::Queues { device: "veth0".into(), queues: 1, lanes: 2 }.to_string();
        assert!(queues.starts_with("veth0 has 1 receive queue, and 2 threads"), "{queues}");
        let missing = MissingCapabilities(vec!["CAP_BPF", "CAP_NET_ADMIN"]);
        let missing = XdpError::from(BpfError::Capabilities(missing)).to_string();
        assert!(missing.contains("CAP_BPF, CAP_NET_ADMIN are missing"), "{missing}");
    }
}
