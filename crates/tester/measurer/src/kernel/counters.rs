//! What the device lost of a trial's frames, by its own counters.

use std::collections::BTreeMap;
use std::io;

use sys::link::Device;

/// Counters at one time.
#[derive(Clone, Debug)]
pub(super) struct Counters(BTreeMap<String, u64>);

/// What happened between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Frames that it took for sending, or counted as refused.
    pub offered: u64,
    /// Frames that it refused to send.
    pub sending: u64,
    /// Frames that it certainly dropped before the sink saw them.
    pub receiving: u64,
}

impl Counters {
    pub(super) fn read(device: &Device) -> io::Result<Self> {
        device.statistics().map(Self)
    }

    /// The losses since `before`, if the sink has taken so many frames and left so many to the stack.
    pub(super) fn since(&self, before: &Self, taken: u64, passed: u64) -> Losses {
        let change = |name: &str| {
            let at = |counters: &Self| counters.0.get(name).copied().unwrap_or(0);
            at(self).saturating_sub(at(before))
        };
        let of_stack = change("link.tx_dropped") + change("link.tx_errors");
        // Drivers name these as they like: veth counts a full ring of its peer in
        // `tx_queue_0_xdp_xmit_errors`.
        let is_refusal = |name: &str| name.contains("xdp_xmit_err") || name.contains("xdp_tx_err");
        let names = self.0.keys().filter(|name| name.starts_with("ethtool.") && is_refusal(name));
        let sending = of_stack.max(names.map(|name| change(name)).sum());
        let missed = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];
        let missed = missed.iter().map(|name| change(&format!("link.{name}"))).sum::<u64>();
        // Some drivers count what a program drops as dropped by the device. The stack counts here what it was
        // left and has no use for: spanning tree and neighbours' announcements come on any network.
        let dropped = change("link.rx_dropped");
        let dropped = if dropped >= taken { dropped - taken } else { dropped };
        let receiving = missed + dropped.saturating_sub(passed);
        Losses { offered: change("link.tx_packets") + sending, sending, receiving }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(values: &[(&str, u64)]) -> Counters {
        Counters(values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn losses_are_what_has_been_added() {
        let before = counters(&[("link.tx_packets", 5), ("link.tx_dropped", 1), ("link.rx_dropped", 7)]);
        let after = counters(&[
            ("ethtool.tx_queue_0_xdp_xmit_errors", 3),
            ("ethtool.tx_queue_1_xdp_xmit_errors", 1),
            ("link.rx_dropped", 9),
            ("link.tx_dropped", 2),
            ("link.tx_packets", 105),
        ]);
        assert_eq!(after.since(&before, 100, 0), Losses { offered: 104, sending: 4, receiving: 2 });
        let counting = counters(&[("link.rx_dropped", 108), ("link.rx_missed_errors", 5)]);
        assert_eq!(counting.since(&before, 100, 0).receiving, 6);
        // What the stack had no use for is no loss; what it never got is one.
        assert_eq!([1, 2, 9].map(|passed| after.since(&before, 100, passed).receiving), [1, 0, 0]);
        assert_eq!(counting.since(&before, 100, 9).receiving, 5);
    }
}
