//! Which capabilities the process has (capabilities(7)).

/// The bits of the capabilities that XDP needs.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
/// Without it the verifier forbids arithmetic with packet pointers and adds barriers against speculation.
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The capabilities that programs need and the calling thread does not have.
pub(super) fn missing() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    missing_from(effective(&status).unwrap_or(0))
}

/// The effective capabilities in the text of `/proc/PID/status` (proc(5)).
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing_from(effective: u64) -> Vec<&'static str> {
    let has = |capability: u32| effective >> capability & 1 == 1;
    // CAP_SYS_ADMIN stands for those that were split off it.
    let split_off = |capability: u32| has(capability) || has(CAP_SYS_ADMIN);
    let needed = [
        ("CAP_BPF", split_off(CAP_BPF)),
        ("CAP_NET_ADMIN", has(CAP_NET_ADMIN)),
        ("CAP_PERFMON", split_off(CAP_PERFMON)),
    ];
    needed.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_capability_is_named() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000000c000001000\nCapBnd:\t0\n";
        assert_eq!(missing_from(effective(status).unwrap()), [""; 0]);
        assert_eq!(missing_from(1 << CAP_BPF | 1 << CAP_NET_ADMIN), ["CAP_PERFMON"]);
        assert_eq!(missing_from(1 << CAP_SYS_ADMIN | 1 << CAP_NET_ADMIN), [""; 0]);
        assert_eq!(missing_from(0), ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]);
        assert_eq!(effective("CapEff:\tnone"), None);
    }
}
