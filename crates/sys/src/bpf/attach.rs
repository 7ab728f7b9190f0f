//! Attaching programs to devices, and finding out whose program is there.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::programs::ProgramFd;

use super::object::Object;
use super::{BpfError, calls, objects};
use crate::link::{Attributes, describe, u32_at};
use crate::patience::patiently;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before a frame has a socket buffer.
    Native,
    /// In the kernel's stack, for drivers that know no XDP: slower.
    Generic,
}

impl Mode {
    /// `XDP_FLAGS_DRV_MODE` and `XDP_FLAGS_SKB_MODE` (linux/if_link.h).
    fn flags(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// A program on a device. It is taken off when this is dropped, and when the process dies.
#[derive(Debug)]
pub struct Attached {
    /// Holding it is what keeps the program there.
    _link: OwnedFd,
    mode: Mode,
}

impl Attached {
    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Attaches a program that lets everything pass. A veth needs one to take what its peer sends by `XDP_TX` or
/// redirects; without it the frames vanish silently. Without a mode, native is tried first, then generic.
///
/// # Errors
/// XDP is not available, or the device is missing, occupied or takes no program.
pub fn attach_pass(device: u32, mode: Option<Mode>) -> Result<Attached, BpfError> {
    let mut object = Object::load("pass", objects::PASS, &[], &[])?;
    attach(&object.program_fd("pass")?, device, mode)
}

/// Attaches a loaded program, which stays loaded with its maps for as long as it is attached; without a mode,
/// native is tried first, then generic.
pub fn attach(program: &ProgramFd, device: u32, mode: Option<Mode>) -> Result<Attached, BpfError> {
    let is_taken = |error: &BpfError| matches!(error, BpfError::Occupied { .. });
    patiently(is_taken, || attach_once(program, device, mode))
}

fn attach_once(program: &ProgramFd, device: u32, mode: Option<Mode>) -> Result<Attached, BpfError> {
    let name = device_name(device)?;
    let modes = mode.map_or(vec![Mode::Native, Mode::Generic], |mode| vec![mode]);
    let mut reasons = Vec::new();
    for mode in modes {
        match calls::link_xdp(program.as_fd(), device, mode.flags()) {
            Ok(link) => return Ok(Attached { _link: link, mode }),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                let id = attached_program(device).ok().flatten().unwrap_or(0);
                return Err(BpfError::Occupied { device: name, id, name: program_name(id) });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(BpfError::Io { operation: "attaching an XDP program", error });
            }
            Err(error) => reasons.push(format!("{mode} mode: {}", reason(&error))),
        }
    }
    Err(BpfError::Unsupported { device: name, reason: reasons.join("; ") })
}

/// What the kernel means by the error of an attachment.
fn reason(error: &io::Error) -> String {
    /// An error of the kernel that has no text in user space.
    const ENOTSUPP: i32 = 524;
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | ENOTSUPP) => "the driver has none".to_owned(),
        Some(libc::ERANGE | libc::EINVAL) => {
            format!(
                "{error} (often a maximum transmission unit too large for XDP, or offloads that exclude it)"
            )
        }
        _ => error.to_string(),
    }
}

/// The name of a program, if there is one and the process may ask (CAP_SYS_ADMIN).
fn program_name(id: u32) -> Option<String> {
    let programs = aya::programs::loaded_programs();
    let found = programs.filter_map(Result::ok).find(|program| program.id() == id)?;
    found.name_as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The name of a device.
pub(super) fn device_name(device: u32) -> Result<String, BpfError> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the array has the length that the call writes at most.
    let found = unsafe { !libc::if_indextoname(device, name.as_mut_ptr()).is_null() };
    if !found {
        let error = io::Error::last_os_error();
        return Err(BpfError::Io { operation: "looking for the network device", error });
    }
    // SAFETY: the call has succeeded, so it has written a string with its end.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

/// The number of the XDP program on a device of the thread's network namespace, whoever put it there.
///
/// # Errors
/// There is no such device, or the kernel cannot be asked.
pub fn attached_program(device: u32) -> io::Result<Option<u32>> {
    /// linux/if_link.h
    const IFLA_XDP: u16 = 43;
    const IFLA_XDP_PROG_IDS: std::ops::RangeInclusive<u16> = 4..=7;
    let link = describe(device)?;
    let xdp = Attributes::of(link.attribute(IFLA_XDP).unwrap_or_default());
    let ids = xdp.filter(|(kind, _)| IFLA_XDP_PROG_IDS.contains(kind));
    Ok(ids.filter_map(|(_, octets)| u32_at(octets, 0)).find(|&id| id != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_program_has_none_and_a_missing_one_is_an_error() {
        // The loopback device is number 1 in every namespace.
        assert_eq!(attached_program(1).unwrap(), None);
        assert_eq!(attached_program(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(device_name(1).unwrap(), "lo");
        assert!(device_name(u32::MAX).unwrap_err().to_string().contains("network device"));
    }
}
