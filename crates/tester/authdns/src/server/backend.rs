//! The back-ends for answers over UDP: `--io`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::ValueEnum;

use super::kernel::KernelService;
use super::xdp::XdpService;
use super::{AuthorityConfig, StartError};
use crate::counters::Counters;
use crate::responder::Responder;

/// How queries come in and answers leave over UDP. TCP is always served by sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// The fastest back-end that the devices of the addresses and the privileges allow.
    #[default]
    Auto,
    /// UDP sockets with sendmmsg and recvmmsg.
    Udp,
    /// AF_XDP, past the kernel's network stack; needs an Ethernet device and privileges.
    Xdp,
    /// An XDP program answers the usual queries, sockets answer the others; needs an Ethernet device and
    /// privileges.
    Kernel,
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Xdp => "xdp",
            Self::Kernel => "kernel",
        })
    }
}

/// Why a way of answering cannot do what is asked of it; each text is one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoRefusal {
    /// Something else must be asked for.
    Usage(String),
    /// The device, the kernel or the privileges are not fit.
    Environment(String),
    /// No program can be had on the device, neither for this nor for another way.
    Device(String),
}

impl fmt::Display for IoRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(reason) | Self::Environment(reason) | Self::Device(reason)) = self;
        f.write_str(reason)
    }
}

/// What answers over UDP beside the sockets, which always have what it leaves.
pub(super) struct Backend {
    service: Option<Service>,
    /// What a program counted that has been taken away.
    ended: Counters,
    /// See [`super::Authority::io_in_words`].
    pub words: String,
}

enum Service {
    Kernel(KernelService),
    Xdp(XdpService),
}

impl Service {
    fn start(
        io: Io,
        config: &AuthorityConfig,
        responder: &Responder,
        addresses: &[SocketAddr],
        failures: &Arc<AtomicU64>,
    ) -> Result<Self, IoRefusal> {
        if io == Io::Kernel {
            return KernelService::start(responder.zone(), addresses, config).map(Self::Kernel);
        }
        XdpService::start(responder, addresses, config, failures).map(Self::Xdp)
    }

    fn io(&self) -> Io {
        match self {
            Self::Kernel(_) => Io::Kernel,
            Self::Xdp(_) => Io::Xdp,
        }
    }

    fn in_words(&self) -> String {
        let places = match self {
            Self::Kernel(kernel) => kernel.places(),
            Self::Xdp(xdp) => xdp.places(),
        };
        format!("{} ({places})", self.io())
    }
}

impl Backend {
    /// Starts what the configuration asks for, for sockets that are bound to `addresses`.
    ///
    /// # Errors
    /// It cannot be had; for [`Io::Auto`] never.
    pub fn start(
        config: &AuthorityConfig,
        responder: &Responder,
        addresses: &[SocketAddr],
        failures: &Arc<AtomicU64>,
    ) -> Result<Self, StartError> {
        // The loopback device is no Ethernet, which is nobody's concern.
        let on_loopback = config.device.is_none() && addresses.iter().all(|at| at.ip().is_loopback());
        let candidates: &[Io] = match config.io {
            Io::Auto if on_loopback => &[],
            Io::Auto => &[Io::Kernel, Io::Xdp],
            Io::Udp => &[],
            Io::Xdp => &[Io::Xdp],
            Io::Kernel => &[Io::Kernel],
        };
        let mut why_not = None;
        for &io in candidates {
            match Service::start(io, config, responder, addresses, failures) {
                Ok(service) => {
                    let words = in_words(service.in_words(), why_not.as_ref());
                    return Ok(Self { service: Some(service), ended: Counters::default(), words });
                }
                Err(why) if config.io != Io::Auto => return Err(StartError::Io(io, why)),
                // The first is the fastest, so it says why not.
                Err(why) => {
                    let is_for_all = matches!(why, IoRefusal::Device(_));
                    why_not = why_not.or(Some((io, why)));
                    if is_for_all {
                        break;
                    }
                }
            }
        }
        let words = in_words(Io::Udp.to_string(), why_not.as_ref());
        Ok(Self { service: None, ended: Counters::default(), words })
    }

    pub fn io(&self) -> Io {
        self.service.as_ref().map_or(Io::Udp, Service::io)
    }

    /// Takes the program away that answers in the kernel, so that this process sees every query.
    pub fn leave_kernel(&mut self) {
        if self.io() == Io::Kernel {
            let mut counted = Counters::default();
            self.add_to(&mut counted);
            (self.ended, self.service) = (counted, None);
        }
    }

    /// Adds what was counted beside the sockets.
    pub fn add_to(&self, counters: &mut Counters) {
        counters.udp += self.ended.udp;
        counters.kernel_passed += self.ended.kernel_passed;
        counters.kernel_no_room += self.ended.kernel_no_room;
        match &self.service {
            Some(Service::Kernel(kernel)) => {
                counters.udp += kernel.traffic();
                (counters.kernel_passed, counters.kernel_no_room) = kernel.passed();
            }
            Some(Service::Xdp(xdp)) => {
                counters.udp += xdp.traffic();
                counters.udp_socket_drops += xdp.drops();
            }
            None => {}
        }
    }

    /// Ends its threads; its counters stay.
    pub fn stop(&mut self) {
        if let Some(Service::Xdp(xdp)) = &mut self.service {
            xdp.stop();
        }
    }
}

/// What was chosen, and why nothing faster.
fn in_words(chosen: String, why_not: Option<&(Io, IoRefusal)>) -> String {
    match why_not {
        Some((io, why)) => format!("{chosen}, not {io}: {why}"),
        None => chosen,
    }
}
