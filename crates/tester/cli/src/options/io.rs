//! Options of the Measurer's input and output: `--io` and related options.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};
use measurer::transport::{Backend, PortRange, SourcePrefix, Sources};

use crate::EXIT_USAGE;
use crate::failure::Failure;

/// Options of the Measurer's sockets.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tester")]
pub(crate) struct IoArgs {
    /// I/O back-end of the Measurer
    #[arg(long, value_enum, default_value_t)]
    pub io: Io,
    /// Allow --io gso where no device cuts the joined queries into packets (loopback, veth)
    #[arg(long)]
    pub allow_unsegmented: bool,
    /// Source ports of all threads together, an equal share for each, at least one [default: 16, and with
    /// --source-ports all of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ports: Option<u32>,
    /// Send from these ports [default: free ones]
    #[arg(long, value_name = "FIRST-LAST")]
    pub source_ports: Option<PortRange>,
    /// Source address, or prefix of the source addresses; an address that no device has needs a route to this
    /// machine ('ip -6 route add local PREFIX dev lo')
    #[arg(long, value_name = "PREFIX|ADDR")]
    pub source: Option<SourcePrefix>,
    /// Receive buffer of each socket [default: 8388608]
    #[arg(long, value_name = "OCTETS")]
    pub receive_buffer: Option<NonZeroU32>,
}

/// `--io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// The best that works everywhere: udp.
    #[default]
    Auto,
    /// UDP sockets with sendmmsg and recvmmsg.
    Udp,
    /// The same with segments: a batch of queries passes the stack as one message, the device makes packets
    /// of it.
    Gso,
    /// AF_XDP, past the kernel's network stack; needs an Ethernet device and privileges.
    Xdp,
    /// XDP programs generate the queries and take the answers; needs an Ethernet device and privileges.
    Kernel,
}

/// All answers of a second at 100,000 q/s fit into 16 such buffers.
const RECEIVE_BUFFER_OCTETS: NonZeroU32 = NonZeroU32::new(8 << 20).expect("a constant");
/// Source ports where nothing is said.
const PORTS: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub struct ResolvedIo {
    pub backend: Backend,
    /// Sockets of all threads together.
    pub sockets: usize,
    /// Addresses and ports to bind them to.
    pub sources: Sources,
    /// Receive buffer of each in octets.
    pub receive_buffer_octets: usize,
}

impl IoArgs {
    /// Resolves the options for so many threads.
    ///
    /// # Errors
    /// More sockets than there are sources.
    pub fn resolve(&self, threads: usize) -> Result<ResolvedIo, Failure> {
        let sources = Sources { addresses: self.source, ports: self.source_ports };
        let all_ports = self.source_ports.map(|range| range.ports().len() as u64);
        let wanted = self.ports.map(u64::from).or(all_ports).unwrap_or(PORTS);
        let threads = threads.max(1) as u64;
        // Every thread has as many.
        let sockets = (wanted / threads).max(1) * threads;
        if let Some(pairs) = sources.pairs().filter(|&pairs| pairs < sockets) {
            let message = format!(
                "--source-ports: {sockets} sockets need as many sources, and there are {pairs}; widen the range, add \
                 --source PREFIX, or lower --ports or --threads"
            );
            return Err(Failure::new(EXIT_USAGE, message));
        }
        Ok(ResolvedIo {
            backend: self.backend()?,
            sockets: sockets as usize,
            sources,
            receive_buffer_octets: self.receive_buffer.unwrap_or(RECEIVE_BUFFER_OCTETS).get() as usize,
        })
    }

    /// The back-ends to try, the fastest first: the one asked for, or where none was, those that may be
    /// better than sockets and go together with the other options; and why one does not.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn ladder(&self) -> Result<(Vec<Backend>, Option<String>), Failure> {
        let chosen = self.backend()?;
        let sockets = [Backend::Gso { allow_unsegmented: false }, chosen];
        Ok(match self.io {
            Io::Auto if self.has_sources() || self.receive_buffer.is_some() => {
                let why =
                    "--io kernel: --ports, --source-ports, --source and --receive-buffer are for sockets";
                (sockets.into(), Some(why.to_owned()))
            }
            Io::Auto => ([&[Backend::Kernel], &sockets[..]].concat(), None),
            _ => (vec![chosen], None),
        })
    }

    fn has_sources(&self) -> bool {
        self.ports.is_some() || self.source_ports.is_some() || self.source.is_some()
    }

    fn backend(&self) -> Result<Backend, Failure> {
        let allow_unsegmented = self.allow_unsegmented;
        match self.io {
            Io::Gso => Ok(Backend::Gso { allow_unsegmented }),
            _ if allow_unsegmented => {
                Err(Failure::new(EXIT_USAGE, "--allow-unsegmented is for --io gso; leave it out"))
            }
            Io::Kernel if self.has_sources() => Err(Failure::new(
                EXIT_USAGE,
                "--io kernel takes ports of its own; leave out --ports, --source-ports and --source",
            )),
            Io::Xdp | Io::Kernel if self.receive_buffer.is_some() => Err(Failure::new(
                EXIT_USAGE,
                "--receive-buffer is for sockets; leave it out with --io xdp and kernel",
            )),
            Io::Auto | Io::Udp => Ok(Backend::Udp),
            Io::Xdp => Ok(Backend::Xdp),
            Io::Kernel => Ok(Backend::Kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        io: IoArgs,
    }

    fn resolved(options: &str, threads: usize) -> Result<ResolvedIo, String> {
        let words = std::iter::once("it").chain(options.split_ascii_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        command.io.resolve(threads).map_err(|failure| failure.to_string())
    }

    #[test]
    fn sockets_follow_ports_ranges_and_threads() {
        let sockets = |options: &str, threads| resolved(options, threads).unwrap().sockets;
        assert_eq!((sockets("", 1), sockets("", 3), sockets("--ports 2", 4)), (16, 15, 4));
        assert_eq!((sockets("--source-ports 20000-20999", 3), sockets("--source-ports 7-7", 1)), (999, 1));
        assert_eq!(sockets("--source-ports 7-7 --source 192.0.2.0/29 --ports 6", 2), 6);
        assert_eq!(resolved("--io gso", 1).unwrap().backend, Backend::Gso { allow_unsegmented: false });
        assert_eq!(resolved("", 1).unwrap().backend, Backend::Udp);
    }

    #[test]
    fn the_fastest_is_tried_first_where_none_is_asked_for() {
        let ladder = |options: &str| {
            let words = std::iter::once("it").chain(options.split_ascii_whitespace());
            let (backends, why) = Command::try_parse_from(words).unwrap().io.ladder().unwrap();
            (backends.into_iter().map(Backend::name).collect::<Vec<_>>().join(" "), why.is_some())
        };
        assert_eq!(ladder(""), ("kernel gso udp".into(), false));
        assert_eq!(ladder("--ports 3"), ("gso udp".into(), true));
        assert_eq!(ladder("--io xdp"), ("xdp".into(), false));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (options, reason) in [
            ("--source-ports 7-9 --ports 4", "4 sockets need as many sources, and there are 3"),
            ("--source-ports 9-7", "before it begins"),
            ("--source 10.0.0.1/8", "after the first 8 must be zero"),
            ("--ports 0", "0 is not in 1..=1000000"),
            ("--allow-unsegmented", "is for --io gso"),
            ("--receive-buffer 0", "invalid value '0'"),
            ("--receive-buffer 65536 --io xdp", "is for sockets"),
            ("--ports 2 --io kernel", "takes ports of its own"),
        ] {
            let message = resolved(options, 1).unwrap_err();
            assert!(message.contains(reason), "'{reason}' is missing in: {message}");
        }
    }
}
