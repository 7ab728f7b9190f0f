//! XDP programs: loading them, attaching them to devices, and taking them off again whatever happens.
//!
//! The compiled programs of `bpf/` are embedded. An attachment is a BPF link held
//! by a file descriptor: when the process ends, by whatever signal, the kernel closes it and the program is
//! gone from the device.

mod attach;
mod calls;
mod capabilities;
mod features;
#[cfg(any(test, feature = "layouts"))]
pub mod layout;
mod object;
pub mod probe;
mod redirect;
mod shared;

/// The compiled programs.
pub(crate) mod objects {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}

use std::fmt;
use std::io;

pub use attach::{Attached, Mode, attach, attach_pass, attached_program};
pub use aya::include_bytes_aligned;
pub use aya::maps::{Map, MapData, RingBuf};
pub use aya::programs::ProgramFd;
pub use calls::{TestRun, count_run_time, run_live, run_once};
pub use object::{Counters, Object};
pub use redirect::{Redirect, RedirectCounters, address_octets};
pub use shared::Shared;

/// The capabilities that programs need and the process does not have (capabilities(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapabilities(pub Vec<&'static str>);

/// What to grant: setcap(8) takes away what it does not name, and AF_XDP needs one more.
pub const ALL_CAPABILITIES: &str = "cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon";

impl fmt::Display for MissingCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(missing) = self;
        write!(
            f,
            "XDP programs need the {} {}: run as root, or 'sudo setcap {ALL_CAPABILITIES}+ep PROGRAM'",
            if missing.len() == 1 { "capability" } else { "capabilities" },
            missing.join(", ")
        )
    }
}

impl std::error::Error for MissingCapabilities {}

/// What went wrong with a program or its device.
#[derive(Debug)]
pub enum BpfError {
    /// The process may not use programs.
    Capabilities(MissingCapabilities),
    /// The kernel did not take the program `name`, for the `reason` given.
    Refused {
        /// The program.
        name: &'static str,
        /// What programs use and this kernel lacks, each with the Linux that has it.
        lacking: Vec<&'static str>,
        /// What the kernel or the loader said, in one line.
        reason: String,
    },
    /// Another program is on the device already. It is never replaced.
    Occupied {
        /// The device.
        device: String,
        /// The number of the other program, as `bpftool prog` shows it; 0 if the kernel does not say.
        id: u32,
        /// Its name, if the process may ask for it.
        name: Option<String>,
    },
    /// The device takes no XDP program in the mode asked for.
    Unsupported {
        /// The device.
        device: String,
        /// The modes tried, with what the kernel said.
        reason: String,
    },
    /// Frames that programs send by the device do not arrive: a veth whose peer is not prepared.
    Unheard {
        /// The device.
        device: String,
    },
    /// A system call failed for another reason.
    Io {
        /// What was being done.
        operation: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl fmt::Display for BpfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities(missing) => missing.fmt(f),
            Self::Refused { name, lacking, reason } => {
                write!(f, "the kernel refused the XDP program {name}: ")?;
                match lacking.as_slice() {
                    [] => f.write_str(reason),
                    lacking => write!(f, "it lacks {}; {reason}", lacking.join(", ")),
                }
            }
            Self::Occupied { device, id, name } => {
                let name = name.as_deref().map(|name| format!(" '{name}'")).unwrap_or_default();
                write!(
                    f,
                    "device {device} has another XDP program already (id {id}{name}): look at it with 'bpftool prog \
                     show id {id}', and if nothing needs it, end its program or remove it with 'ip link set {device} \
                     xdp off'"
                )
            }
            Self::Unsupported { device, reason } => {
                write!(f, "device {device} takes no XDP program: {reason}")
            }
            Self::Unheard { device } => write!(
                f,
                "the peer of {device} takes no frames of XDP programs: switch its generic receive offload on ('ethtool -K \
                 PEER gro on') while both ends are up, or give it an XDP program"
            ),
            Self::Io { operation, error } => write!(f, "{operation}: {error}"),
        }
    }
}

impl std::error::Error for BpfError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capabilities(missing) => Some(missing),
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<BpfError> for io::Error {
    fn from(error: BpfError) -> Self {
        let kind = match &error {
            BpfError::Capabilities(_) => io::ErrorKind::PermissionDenied,
            BpfError::Unsupported { .. } | BpfError::Unheard { .. } => io::ErrorKind::Unsupported,
            BpfError::Occupied { .. } => io::ErrorKind::ResourceBusy,
            BpfError::Io { error, .. } => error.kind(),
            BpfError::Refused { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Whether the process has the capabilities that XDP programs need (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON;
/// CAP_SYS_ADMIN stands for the first and the last).
///
/// # Errors
/// What is missing, and how to get it.
pub fn available() -> Result<(), MissingCapabilities> {
    let missing = capabilities::missing();
    if missing.is_empty() { Ok(()) } else { Err(MissingCapabilities(missing)) }
}

/// The processors that maps of the kind "per CPU" have values for: all that the machine may ever have.
///
/// # Errors
/// The kernel does not tell.
pub fn processors() -> Result<usize, BpfError> {
    aya::util::nr_cpus().map_err(|(_, error)| BpfError::Io { operation: "counting the processors", error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let text = MissingCapabilities(vec!["CAP_BPF", "CAP_NET_ADMIN"]).to_string();
        assert!(text.contains("capabilities CAP_BPF, CAP_NET_ADMIN"), "{text}");
        assert!(text.contains("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep"), "{text}");
    }

    #[test]
    fn a_refusal_names_what_the_kernel_lacks() {
        let refused = |lacking| BpfError::Refused { name: "sink", lacking, reason: "unknown func".into() };
        assert_eq!(refused(vec![]).to_string(), "the kernel refused the XDP program sink: unknown func");
        assert_eq!(
            refused(vec!["one (Linux 5.8)", "two"]).to_string(),
            "the kernel refused the XDP program sink: it lacks one (Linux 5.8), two; unknown func"
        );
    }

    #[test]
    fn a_foreign_program_is_named_with_the_way_to_remove_it() {
        let error = BpfError::Occupied { device: "eth0".into(), id: 7, name: Some("xdp_lb".into()) };
        let text = error.to_string();
        assert!(text.contains("id 7 'xdp_lb'") && text.contains("ip link set eth0 xdp off"), "{text}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ResourceBusy);
    }
}
