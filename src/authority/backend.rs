//! The ways of answering over UDP: `--io`.

use std::fmt;

use clap::ValueEnum;

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
