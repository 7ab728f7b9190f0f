//! The receive buffers of other programs' sockets, by `ss` (iproute2).

use std::process::{Command, Stdio};

/// The smallest receive buffer of the UDP sockets on a port in the calling thread's namespace, in octets as
/// the kernel counts them (twice what the program asked for, socket(7)); `None` where there is none or `ss`
/// is missing.
fn receive_buffer_octets(port: u16) -> Option<u64> {
    let filter = format!("sport = :{port}");
    let output = Command::new("ss").args(["-Hnuam", &filter]).stdin(Stdio::null()).output().ok()?;
    smallest(&String::from_utf8_lossy(&output.stdout))
}

/// The same in the network namespace of a process; `None` also where that cannot be entered.
pub fn receive_buffer_of(pid: u32, port: u16) -> Option<u64> {
    sys::netns::within_process(pid, || receive_buffer_octets(port)).ok().flatten()
}

/// The smallest `rb` of all `skmem:(r0,rb212992,…)` in the text.
fn smallest(text: &str) -> Option<u64> {
    let memories = text.split("skmem:(").skip(1);
    let buffers = memories.filter_map(|memory| {
        let fields = memory.split(')').next()?.split(',');
        fields.filter_map(|field| field.strip_prefix("rb")?.parse().ok()).next()
    });
    buffers.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_buffer_is_read() {
        let text = "UNCONN 0 0 [::1]:53 [::]:*\n\t skmem:(r0,rb425984,t0,tb212992,f0,w0,o0,bl0,d0)\n\
                    UNCONN 0 0 127.0.0.1:53 0.0.0.0:*\n\t skmem:(r0,rb4608,t0,tb212992,f0,w0,o0,bl0,d0)\n";
        assert_eq!(smallest(text), Some(4608));
        assert_eq!(smallest(""), None);
        assert_eq!(smallest("skmem:(rbx,rb"), None);
    }
}
