//! Zone transfers on a terminal.

use record::number::{count, octets, plural, seconds, share, time_of};
use record::{Spread, Transfer, TransferSummary, Transfers};

use super::clean::{printable, shortened};
use super::lines::wrapped;

/// Failed transfers whose reason is shown; the rest is in the record.
const REASONS: usize = 8;

/// All transfers: how many were complete, their times, and why others failed.
pub fn transfer_text(all: &Transfers) -> String {
    let mut out = wrapped("", &headline(all), 6);
    if let Some(summary) = &all.summary {
        out += &times(summary);
    }
    if let Some(last) = all.transfers.iter().rev().find(|transfer| transfer.failure.is_none()) {
        out += &content(last);
    }
    printable(out + &failures(all))
}

fn headline(all: &Transfers) -> String {
    let complete = all.summary.as_ref().map_or(0, |summary| summary.complete);
    let outcome = if all.is_complete() { "PASS" } else { "FAIL" };
    let protocol = if all.protocol == "dot" { "TLS" } else { "TCP" };
    let (zone, server) = (shortened(&all.zone, 300), &all.server);
    let begun = all.transfers.len() as u32;
    let mut text = format!(
        "{outcome}: {complete} of {} of {zone} (AXFR) from {server} over {protocol} complete",
        plural(all.wanted as usize, "transfer", "transfers")
    );
    if begun < all.wanted {
        let left = all.wanted - begun;
        text += &format!("; {} not begun within {}", count(left.into()), seconds(all.duration_s));
    }
    text
}

fn times(summary: &TransferSummary) -> String {
    let row = |label: &str, values: &Spread, form: fn(u64) -> String| {
        let [median, min, max] = [values.median, values.min, values.max].map(form);
        format!("  {label:<26}{median:>14}{min:>14}{max:>14}\n")
    };
    let mut out = format!("\n  {:<26}{:>14}{:>14}{:>14}\n", "", "median", "min", "max");
    out += &row("connection", &summary.connect_ns, time_of);
    if let Some(handshake_ns) = &summary.handshake_ns {
        out += &row("handshake of TLS", handshake_ns, time_of);
    }
    out += &row("query to first message", &summary.first_message_ns, time_of);
    out += &row("query to last message", &summary.last_message_ns, time_of);
    out + &row("records per second", &summary.records_per_s, count)
}

/// What a complete transfer brought.
fn content(transfer: &Transfer) -> String {
    let Transfer { messages, records, serial, .. } = transfer;
    let text = format!(
        "{} records in {} of {} in all; serial {}",
        count(*records),
        plural(*messages as usize, "message", "messages"),
        octets(transfer.octets),
        serial.unwrap_or_default()
    );
    wrapped("\nThe last one: ", &text, 6)
}

fn failures(all: &Transfers) -> String {
    if all.failures.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nFailed, by place\n");
    for (place, number) in &all.failures {
        let place = shortened(&place.as_str().replace('_', " "), 40);
        let part = share((*number).into(), all.transfers.len() as u64);
        out += &format!("  {place:<26}{:>14}{part:>14}\n", count((*number).into()));
    }
    let failed = all.transfers.iter().zip(1..).filter_map(|(transfer, number)| {
        let failure = transfer.failure.as_ref()?;
        let after = format!("after {} records", count(transfer.records));
        Some(wrapped(&format!("  {number}: "), &format!("{} ({after})", shortened(&failure.reason, 300)), 5))
    });
    out.extend(failed.take(REASONS));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{TransferEnd, TransferFailure};

    #[test]
    fn all_that_happened_is_said() {
        let complete = Transfer {
            connect_ns: Some(100_000),
            first_message_ns: Some(2_000_000),
            last_message_ns: Some(50_000_000),
            messages: 12,
            records: 65_541,
            octets: 3 << 20,
            serial: Some(7),
            ..Transfer::default()
        };
        let reason = "the server closed the connection\u{1b}[2J while waiting for a message".to_owned();
        let failure = Some(TransferFailure { place: TransferEnd::ClosedEarly, reason });
        let failed = Transfer { failure, records: 1000, ..complete.clone() };
        let all = Transfers {
            server: "[::1]:53".into(),
            zone: "zone.test".into(),
            protocol: "tcp".into(),
            duration_s: 60.0,
            wanted: 4,
            transfers: vec![complete.clone(), failed, complete],
            ..Transfers::default()
        };
        let text = transfer_text(&all.summed_up());
        let wanted = "\
FAIL: 2 of 4 transfers of zone.test (AXFR) from [::1]:53 over TCP complete; 1 not begun within
      60 s

                                    median           min           max
  connection                        100 µs        100 µs        100 µs
  query to first message           2.00 ms       2.00 ms       2.00 ms
  query to last message            50.0 ms       50.0 ms       50.0 ms
  records per second             1,310,820     1,310,820     1,310,820

The last one: 65,541 records in 12 messages of 3.00 MiB in all; serial 7

Failed, by place
  closed early                           1       33.33 %
  2: the server closed the connection\u{fffd}[2J while waiting for a message (after 1,000 records)
";
        assert_eq!(text, wanted);
    }
}
