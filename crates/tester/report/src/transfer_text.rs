//! Zone transfers on a terminal.

use record::number::{count, octets, plural, seconds, share, time_of};
use record::{Spread, Transfer, TransferAnswer, TransferSummary, Transfers};

use super::clean::{printable, shortened};
use super::lines::wrapped;

/// Failed transfers whose reason is shown; the rest is in the record.
const REASONS: usize = 8;

/// All transfers: how many were complete, their times, and why others failed.
pub fn transfer_text(all: &Transfers) -> String {
    let mut out = wrapped("", &headline(all), 6);
    if let Some(summary) = &all.summary {
        out += &figures(summary, all.rate.is_some());
    }
    if all.since.is_some() && !all.answers.is_empty() {
        out += &answers(all);
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
    let mut asked = all.since.map_or("AXFR".to_owned(), |serial| format!("IXFR since serial {serial}"));
    if !all.tsig.is_empty() {
        asked += &format!(", TSIG {}", shortened(&all.tsig, 300));
    }
    let mut text = format!(
        "{outcome}: {complete} of {} of {zone} ({asked}) from {server} over {protocol} complete",
        plural(all.wanted as usize, "transfer", "transfers")
    );
    if let Some(rate) = all.rate {
        text += &format!("; {} per second", count(rate));
    }
    if begun < all.wanted {
        let left = all.wanted - begun;
        text += &format!("; {} not begun", count(left.into()));
        // At a rate only the user keeps transfers from their beginning.
        if all.rate.is_none() {
            text += &format!(" within {}", seconds(all.duration_s));
        }
    }
    text
}

fn figures(summary: &TransferSummary, is_at_rate: bool) -> String {
    let row = |label: &str, values: &Spread, form: fn(u64) -> String| {
        let [min, median, p99, max] = [values.min, values.median, values.p99, values.max].map(form);
        format!("  {label:<24}{min:>13}{median:>13}{p99:>13}{max:>13}\n")
    };
    let mut out = format!("\n  {:<24}{:>13}{:>13}{:>13}{:>13}\n", "", "min", "median", "p99", "max");
    if is_at_rate {
        out += &row("begun after its instant", &summary.late_ns, time_of);
    }
    out += &row("connection", &summary.connect_ns, time_of);
    if let Some(handshake_ns) = &summary.handshake_ns {
        out += &row("handshake of TLS", handshake_ns, time_of);
    }
    out += &row("query to first message", &summary.first_message_ns, time_of);
    out += &row("query to last message", &summary.last_message_ns, time_of);
    out += &row("instant to end", &summary.whole_ns, time_of);
    out += &row("records", &summary.records, count);
    out += &row("size of the messages", &summary.octets, octets);
    out + &row("records per second", &summary.records_per_s, count)
}

/// What the complete ones were.
fn answers(all: &Transfers) -> String {
    let each = all.answers.iter().map(|(answer, number)| {
        let answer = shortened(&answer.as_str().replace('_', " "), 40);
        format!("{} {answer}", count((*number).into()))
    });
    wrapped("\nAnswers: ", &each.collect::<Vec<_>>().join(", "), 6)
}

/// What a complete transfer brought.
fn content(transfer: &Transfer) -> String {
    let Transfer { messages, records, removed, added, serial, .. } = transfer;
    let mut text = plural(*records as usize, "record", "records");
    if transfer.answer == Some(TransferAnswer::Incremental) {
        text += &format!(" ({} removed, {} added)", count(*removed), count(*added));
    }
    text += &format!(
        " in {} of {} in all; serial {}",
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

    fn complete() -> Transfer {
        Transfer {
            whole_ns: 51_000_000,
            answer: Some(TransferAnswer::Full),
            connect_ns: Some(100_000),
            first_message_ns: Some(2_000_000),
            last_message_ns: Some(50_000_000),
            messages: 12,
            records: 65_541,
            octets: 3 << 20,
            serial: Some(7),
            ..Transfer::default()
        }
    }

    #[test]
    fn all_that_happened_is_said() {
        let complete = complete();
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

                                    min       median          p99          max
  connection                     100 µs       100 µs       100 µs       100 µs
  query to first message        2.00 ms      2.00 ms      2.00 ms      2.00 ms
  query to last message         50.0 ms      50.0 ms      50.0 ms      50.0 ms
  instant to end                51.0 ms      51.0 ms      51.0 ms      51.0 ms
  records                        65,541       65,541       65,541       65,541
  size of the messages         3.00 MiB     3.00 MiB     3.00 MiB     3.00 MiB
  records per second          1,310,820    1,310,820    1,310,820    1,310,820

The last one: 65,541 records in 12 messages of 3.00 MiB in all; serial 7

Failed, by place
  closed early                           1       33.33 %
  2: the server closed the connection\u{fffd}[2J while waiting for a message (after 1,000 records)
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn changes_at_a_rate_have_more_lines() {
        let changed = Transfer {
            connect_ns: Some(1),
            first_message_ns: Some(2),
            last_message_ns: Some(3),
            messages: 1,
            records: 9,
            removed: 3,
            added: 5,
            octets: 600,
            serial: Some(9),
            answer: Some(TransferAnswer::Incremental),
            ..Transfer::default()
        };
        let full = Transfer { answer: Some(TransferAnswer::Full), ..changed.clone() };
        let all = Transfers {
            zone: "zone.test".into(),
            since: Some(7),
            tsig: "hmac-sha256 key.test.".into(),
            rate: Some(20),
            wanted: 3,
            transfers: vec![full, changed.clone(), changed],
            ..Transfers::default()
        };
        let text = transfer_text(&all.summed_up());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "PASS: 3 of 3 transfers of zone.test (IXFR since serial 7, TSIG hmac-sha256 key.test.)",
            "over TCP complete; 20 per second",
            "begun after its instant",
            "Answers: 1 full, 2 incremental",
            "The last one: 9 records (3 removed, 5 added) in 1 message of 600 B in all; serial 9",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
