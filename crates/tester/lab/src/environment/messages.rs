//! The kernel's own warnings (`/dev/kmsg`, Documentation/ABI/testing/dev-kmsg).

/// So many of the last are kept.
const KEPT: usize = 5;
/// `warning` and all that is worse (syslog(3)).
const WARNING: u32 = 4;
/// Words of warnings that may explain a number: full tables, devices that stood still, processors that were
/// slowed down.
const WORDS: [&str; 11] = [
    "table full",
    "table overflow",
    "netdev watchdog",
    "page allocation failure",
    "out of memory",
    "soft lockup",
    "hung task",
    "machine check",
    "throttled",
    "clocksource",
    "possible syn flooding",
];

/// The last of them, from the kernel's messages since it was booted.
pub(super) fn warnings(messages: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = messages.into_iter().filter_map(|message| warning(&message)).collect();
    kept.split_off(kept.len().saturating_sub(KEPT))
}

/// The text of a record, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,MORE];TEXT`, if it is such a warning.
fn warning(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let at_us: u64 = head.nth(1)?.parse().ok()?;
    let text = text.lines().next()?;
    let lower = text.to_lowercase();
    let fits = priority % 8 <= WARNING && WORDS.iter().any(|word| lower.contains(word));
    fits.then(|| format!("{} s after boot: {}", at_us / 1_000_000, text.replace(char::is_control, " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_matter_are_kept_and_others_are_not() {
        let kept =
            warning("4,77,12345678,-;nf_conntrack: nf_conntrack: table full, dropping packet\n DEVICE=x\n");
        assert_eq!(
            kept.as_deref(),
            Some("12 s after boot: nf_conntrack: nf_conntrack: table full, dropping packet")
        );
        assert_eq!(warning("6,77,1,-;table full"), None, "only informational");
        assert_eq!(warning("4,77,1,-;hello"), None);
        for nonsense in ["", ";", "4", "4,5;table full", "x,1,1,-;table full", "4,1,z,-;table full"] {
            assert_eq!(warning(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn the_last_ones_are_kept() {
        let messages = (0..9).map(|at| format!("4,{at},{at}000000,-;clocksource: watchdog"));
        let kept = warnings(messages);
        assert_eq!((kept.len(), kept[4].as_str()), (KEPT, "8 s after boot: clocksource: watchdog"));
    }
}
