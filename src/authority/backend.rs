//! The ways of answering over UDP: `--io`.

use std::fmt;
use std::net::SocketAddr;

use clap::ValueEnum;

use super::counters::Counters;
use super::kernel::KernelService;
use super::server::{AuthorityConfig, StartError};
use super::zone::Zone;

/// How queries come in and answers leave over UDP. TCP is always served by sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// The fastest that the devices of the addresses and the privileges allow.
    #[default]
    Auto,
    /// UDP sockets with sendmmsg and recvmmsg.
    Udp,
    /// AF_XDP, past the kernel's network stack; needs an Ethernet device and privileges.
    Xdp,
    /// An XDP program answers, sockets what it does not know; needs an Ethernet device and privileges.
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
}

impl fmt::Display for IoRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(reason) | Self::Environment(reason)) = self;
        f.write_str(reason)
    }
}

/// Why the sockets must see every query, if they must.
fn needs_sockets(config: &AuthorityConfig) -> Option<&'static str> {
    if config.faults.is_some() {
        return Some("faults befall answers of sockets alone");
    }
    let watches = config.observer.as_ref().is_some_and(|observer| observer.is_watching());
    watches.then_some("only queries that come to sockets are observed")
}

/// What answers over UDP beside the sockets.
pub(super) struct Backend {
    kernel: Option<KernelService>,
    /// What a program counted that has been taken away.
    ended: Counters,
    /// See [`super::Authority::io_in_words`].
    pub words: String,
}

impl Backend {
    /// Starts what the configuration asks for, for sockets that are bound to `addresses`.
    pub fn start(
        config: &AuthorityConfig,
        zone: &Zone,
        addresses: &[SocketAddr],
    ) -> Result<Self, StartError> {
        let sockets = |words: String| Self { kernel: None, ended: Counters::default(), words };
        if config.io == Io::Udp {
            return Ok(sockets("udp".to_owned()));
        }
        if config.io == Io::Xdp {
            let reason = "not in this build; use --io kernel or udp".to_owned();
            return Err(StartError::Io(Io::Xdp, IoRefusal::Usage(reason)));
        }
        if let Some(why) = needs_sockets(config) {
            return match config.io {
                Io::Auto => Ok(sockets(format!("udp (not kernel: {why})"))),
                io => Err(StartError::Io(io, IoRefusal::Usage(format!("{why}; use --io udp")))),
            };
        }
        match KernelService::start(zone, addresses, config.device.as_deref()) {
            Ok(kernel) => Ok(Self {
                words: format!("kernel ({})", kernel.places()),
                kernel: Some(kernel),
                ended: Counters::default(),
            }),
            Err(why) if config.io == Io::Auto => Ok(sockets(format!("udp (not kernel: {why})"))),
            Err(why) => Err(StartError::Io(config.io, why)),
        }
    }

    /// What was chosen.
    pub fn io(&self) -> Io {
        if self.kernel.is_some() { Io::Kernel } else { Io::Udp }
    }

    /// Leaves everything to the sockets.
    pub fn end(&mut self) {
        let mut counted = Counters::default();
        self.add_to(&mut counted);
        (self.ended, self.kernel) = (counted, None);
    }

    /// Adds what was counted beside the sockets.
    pub fn add_to(&self, counters: &mut Counters) {
        counters.udp += self.ended.udp;
        counters.kernel_passed += self.ended.kernel_passed;
        counters.kernel_no_room += self.ended.kernel_no_room;
        if let Some(kernel) = &self.kernel {
            counters.udp += kernel.traffic();
            (counters.kernel_passed, counters.kernel_no_room) = kernel.passed();
        }
    }
}
