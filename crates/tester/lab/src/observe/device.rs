//! Losses of the device by which queries leave (`struct rtnl_link_stats64`, include/uapi/linux/if_link.h).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sys::link::Device;

/// A device's losses between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceLosses {
    /// The name of the device, for example `tester0`.
    pub name: String,
    /// Packets that it dropped or failed to send.
    pub tx: u64,
    /// Packets that it had to leave on the wire or took damaged.
    pub rx: u64,
    /// Packets that it took and the stack dropped: for a full backlog, but also for a protocol that nobody
    /// here speaks.
    pub rx_discarded: u64,
    /// Each counter of losses or errors that grew: `link.` those of the kernel, `ethtool.` those of the
    /// driver.
    pub counters: BTreeMap<String, u64>,
}

/// Words in the names of counters that tell of losses.
const WORDS: [&str; 10] =
    ["drop", "error", "_err", "miss", "discard", "no_buf", "nobuf", "overrun", "full", "nohandler"];

/// The device's counters by name; none where they cannot be read.
pub(super) fn read(device: &Device) -> BTreeMap<String, u64> {
    device.statistics().unwrap_or_default()
}

/// What was lost between two readings of the same device.
pub(super) fn losses(
    device: &Device,
    now: &BTreeMap<String, u64>,
    earlier: &BTreeMap<String, u64>,
) -> DeviceLosses {
    let grown = |name: &str, value: u64| value.saturating_sub(earlier.get(name).copied().unwrap_or(0));
    let counters = now.iter().map(|(name, &value)| (name.clone(), grown(name, value)));
    let counters: BTreeMap<String, u64> =
        counters.filter(|(name, count)| *count > 0 && WORDS.iter().any(|word| name.contains(word))).collect();
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    DeviceLosses {
        name: device.name.clone(),
        tx: count("link.tx_dropped").saturating_add(count("link.tx_errors")),
        // What was missed for want of room is no part of the errors (if_link.h).
        rx: count("link.rx_errors").saturating_add(count("link.rx_missed_errors")),
        rx_discarded: count("link.rx_dropped"),
        counters,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_is_told_by_direction() {
        let device = Device { index: 7, name: "eth7".into() };
        let reading = |values: &[(&str, u64)]| {
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>()
        };
        let before = reading(&[("link.tx_dropped", 3), ("link.rx_packets", 100), ("link.rx_dropped", 9)]);
        let after = reading(&[
            ("link.tx_dropped", 10),
            ("link.tx_errors", 2),
            ("link.rx_packets", 900),
            ("link.rx_dropped", 10),
            ("link.rx_missed_errors", 4),
            ("link.rx_errors", 1),
            ("ethtool.rx_no_buffer_count", 4),
        ]);
        let seen = losses(&device, &after, &before);
        assert_eq!((seen.tx, seen.rx, seen.rx_discarded), (9, 5, 1));
        assert_eq!(seen.counters["ethtool.rx_no_buffer_count"], 4);
        assert!(!seen.counters.contains_key("link.rx_packets"), "{seen:?}");
        let restarted = losses(&device, &before, &after);
        assert_eq!(restarted, DeviceLosses { name: "eth7".into(), ..DeviceLosses::default() });
    }

    #[test]
    fn loopback_is_read() {
        let device = sys::link::device_to("[::1]:53".parse().unwrap()).unwrap();
        assert!(read(&device).contains_key("link.tx_dropped"));
        let gone = Device { index: 0x7fff_ffff, ..device };
        assert_eq!(read(&gone), BTreeMap::new());
    }
}
