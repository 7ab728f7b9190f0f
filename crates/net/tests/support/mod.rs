//! Two network namespaces joined by a veth pair.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A Tester's namespace and a server's, removed when this is dropped.
pub struct Pair {
    /// The namespace of the side under test.
    pub tester: String,
    /// The namespace of the server.
    pub server: String,
}

/// Addresses of the two sides, for RFC 2544's and RFC 5180's benchmarks.
pub const TESTER_V4: &str = "198.18.0.1";
pub const SERVER_V4: &str = "198.18.0.2";
pub const TESTER_V6: &str = "2001:2::1";
pub const SERVER_V6: &str = "2001:2::2";
/// The device, which has the same name on both sides.
pub const DEVICE: &str = "ax0";

impl Pair {
    /// Makes them, with so many queues in each direction; `None`, with the reason printed, where that is impossible.
    pub fn make(queues: usize) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !net::process::is_root() {
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("ax{}-{number}{side}", std::process::id());
        let pair = Self { tester: name("t"), server: name("s") };
        let Self { tester: t, server: s } = &pair;
        let veth = format!("numrxqueues {queues} numtxqueues {queues}");
        let mut steps = vec![
            format!("netns add {t}"),
            format!("netns add {s}"),
            format!("-n {t} link add {DEVICE} {veth} type veth peer name {DEVICE} netns {s} {veth}"),
        ];
        for (side, v4, v6) in [(t, TESTER_V4, TESTER_V6), (s, SERVER_V4, SERVER_V6)] {
            steps.push(format!("-n {side} link set lo up"));
            steps.push(format!("-n {side} addr add {v4}/24 dev {DEVICE}"));
            steps.push(format!("-n {side} addr add {v6}/64 dev {DEVICE} nodad"));
            steps.push(format!("-n {side} link set {DEVICE} up"));
        }
        steps.into_iter().all(|step| ip(&step)).then_some(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.tester));
        ip(&format!("netns del {}", self.server));
    }
}

/// Runs `ip` with the words of a line.
pub fn ip(line: &str) -> bool {
    match Command::new("ip").args(line.split_whitespace()).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!("SKIPPED: ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
            false
        }
        Err(error) => {
            println!("SKIPPED: ip: {error}");
            false
        }
    }
}
