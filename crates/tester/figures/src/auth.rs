//! `docs/performance/auth.json`: the AuthDNS beside other authoritative servers.

mod goals;
mod render;

use serde::{Deserialize, Serialize};

use crate::{Origin, Program, Sample};

pub use render::block;

/// One run of `make bench-auth`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When, of what, and where.
    pub origin: Origin,
    /// The servers.
    pub programs: Vec<Program>,
    /// So often the rates of AAAA queries were measured.
    pub rounds: usize,
    /// So often everything else was.
    pub other_rounds: usize,
    /// The smallest receive buffer of each server's sockets, as the kernel counts it, in octets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receive_buffers: Vec<Buffer>,
    /// Answered AAAA queries.
    pub aaaa: Vec<Rates>,
    /// The same where half of the answers are NODATA.
    pub half_nodata: Vec<Rates>,
    /// Start and memory by the number of names.
    pub sizes: Vec<Size>,
    /// The certificate of the self-test; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Servers that were left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A server's socket buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// The server.
    pub server: String,
    /// In octets.
    pub octets: u64,
}

/// A server, asked by a generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The server.
    pub server: String,
    /// How it was asked, for example `gso`.
    pub generator: String,
    /// It had 2 to the power of so many names.
    pub names_bits: u8,
    /// The most valid answers per second.
    pub peak_qps: Sample,
    /// The highest rate at which 99.9 % were answered, in q/s.
    pub loss_free_qps: Sample,
    /// Processor time of its processes for each answer, in µs.
    pub process_us: Sample,
    /// Busy time of its processor for each answer, in µs.
    pub core_us: Sample,
    /// Busy time of both processors for each answer, in µs.
    pub both_us: Sample,
}

/// A server with a number of names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// The server.
    pub server: String,
    /// It had 2 to the power of so many names.
    pub names_bits: u8,
    /// From the start to the first right answer, in seconds.
    pub start_s: Sample,
    /// Memory then, in MiB.
    pub memory_mib: Sample,
    /// The most resident memory that one of its processes ever had, in MiB.
    pub peak_mib: Sample,
}

/// What a certificate of `sextant selftest` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The rate of the deciding trial in q/s.
    pub required_qps: f64,
    /// The length of the trial in seconds.
    pub trial_s: f64,
    /// Answers counted within so many seconds.
    pub timeout_s: f64,
    /// Rates up to this one are certified, in q/s.
    pub certified_qps: f64,
}

/// The name of the AuthDNS with a back-end, for example `sextant auth --io udp`.
pub fn ours(io: &str) -> String {
    format!("sextant auth --io {io}")
}

/// Whether a name is that of the AuthDNS.
fn is_ours(server: &str) -> bool {
    server.starts_with("sextant ")
}
