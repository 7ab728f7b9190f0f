//! One trial on a terminal.

use std::collections::BTreeMap;

use record::limits::WINDOW_DEVIATION;
use record::{Cause, Connections, Latency, Observation, Outcome, Replay, Trial, Validity, Window};

use super::clean::{printable, shortened};
use super::lines::wrapped;
use super::select::{dut_cpu_us_per_answer, place};
use super::words::transport;
use record::number::{
    NONE, count, octets, percent, plural, rate_of, real, seconds, share, short, significant, time_ns, time_of,
};

/// Rows of losses and reasons that are shown; the rest is in the record.
const ROWS: usize = 24;

/// The whole trial, aligned: what became of it, every class and place of loss, latency, lateness, windows.
pub fn trial_text(trial: &Trial) -> String {
    let mut out = wrapped("", &headline(trial), 6);
    out += &cause(trial);
    out += &accounting(trial);
    out += &losses(trial);
    if let Some(seen) = &trial.connections {
        out += &connections(seen);
    }
    out += &latencies(trial);
    out += &sending(trial);
    if let Some(capture) = &trial.replay {
        out += &replay(capture);
    }
    if let Some(beside) = &trial.beside {
        let (rate, length) = (rate_of(beside.rate_qps), seconds(beside.duration_s));
        let (answered, sent) = (count(beside.answered), count(beside.sent));
        let text = format!(
            "{rate} for random names for {length}: {answered} of {sent} were answered. The counters below include these queries."
        );
        out += &wrapped("\nBeside: ", &text, 6);
    }
    if let Some(seen) = &trial.observation {
        out += &observation(trial, seen);
    }
    if let Some(hint) = hint(trial) {
        out += &wrapped("\nHint: ", &hint, 6);
    }
    printable(out)
}

fn headline(trial: &Trial) -> String {
    let mut what = format!("{} for {}", rate_of(trial.rate_qps), seconds(trial.duration_s));
    if trial.closed_loop {
        what = format!("closed loop ({}): {what}", shortened(&trial.load.to_string(), 80));
    } else if !trial.load.is_constant() {
        what += &format!(" ({})", shortened(&trial.load.to_string(), 80));
    }
    if !matches!(trial.io.as_str(), "" | "udp") {
        what += &format!(" by {}", shortened(&trial.io, 120));
    }
    // What was asked for, and how many queries got it.
    let (answer, counted) = match trial.validity {
        Validity::Compat => ("an answer in time that dns64perf++ takes for valid", trial.valid_compat),
        Validity::Response => ("a response in time", trial.valid),
        _ => ("a valid answer in time", trial.valid),
    };
    match (trial.outcome, &trial.void) {
        (Outcome::Pass, _) => format!("PASS: {what}: every query got {answer}"),
        (Outcome::Fail, _) => {
            let missing = trial.scheduled.saturating_sub(counted);
            let queries = plural(missing as usize, "query", "queries");
            format!("FAIL: {what}: {queries} without {answer} ({})", share(missing, trial.scheduled))
        }
        (Outcome::Void, Some(reason)) => format!("VOID: {what}: {}", shortened(reason, 300)),
        (Outcome::Void, None) => format!("VOID: {what}: the Tester or other load was at fault"),
    }
}

/// Why it did not pass, where the counters tell.
fn cause(trial: &Trial) -> String {
    let told = trial.cause.as_ref().filter(|found| found.cause != Cause::Unattributed);
    told.map_or_else(String::new, |found| {
        wrapped("", &format!("Cause: {}; {}.", found.cause, shortened(&found.evidence, 300)), 0)
    })
}

fn accounting(trial: &Trial) -> String {
    let row = |label: &str, value: u64, of: u64| {
        format!("  {label:<26}{:>16}  {:>10}\n", count(value), share(value, of))
    };
    let mut out = String::from("\nQueries\n");
    out += &row("scheduled", trial.scheduled, 0).replace(NONE, "");
    out += &row("sent", trial.sent, trial.scheduled);
    out += &row("answered", trial.answered, trial.sent);
    let valid = if trial.validity == Validity::Response { "  valid (any response)" } else { "  valid" };
    out += &row(valid, trial.valid, trial.sent);
    out += &row("  invalid", trial.invalid, trial.sent);
    out += &row("  late", trial.late, trial.sent);
    out += &row("lost", trial.lost, trial.sent);
    out += &row("valid by dns64perf++", trial.valid_compat, trial.sent);
    for (label, value) in [
        ("duplicate answers", trial.duplicates),
        ("unexpected datagrams", trial.unexpected),
        ("ICMP errors", trial.icmp_errors),
    ] {
        if value > 0 {
            out += &row(label, value, 0).replace(NONE, "");
        }
    }
    trim_lines(&out)
}

fn losses(trial: &Trial) -> String {
    // NOERROR alone is no news.
    let news = trial.rcodes.keys().any(|rcode| rcode != "NOERROR");
    let none = BTreeMap::new();
    table("Lost or failed, by place", &trial.losses, place, trial.scheduled)
        + &table("Answers by RCODE", if news { &trial.rcodes } else { &none }, String::clone, trial.answered)
        + &table("What invalid answers had wrong", &trial.invalid_reasons, String::clone, trial.invalid)
        + &table("What unexpected datagrams were", &trial.unexpected_reasons, String::clone, trial.unexpected)
}

/// The capture: what of it was asked again, and what was left out.
fn replay(capture: &Replay) -> String {
    let text = format!(
        "{} of {} clients of {}, {} times as fast; {} queries of {} can be asked again.",
        count(capture.clients),
        count(capture.recorded_clients),
        shortened(&capture.source, 120),
        short(capture.speed),
        count(capture.recorded_queries),
        seconds(capture.recorded_s),
    );
    let mut out = wrapped("\nReplay: ", &text, 6);
    if let Some(stopped) = &capture.stopped {
        out += &wrapped("Read up to ", &format!("{}.", shortened(stopped, 200)), 6);
    }
    let left_out = table("Left out of the capture", &capture.left_out, |why| why.replace('_', " "), 0);
    out += &trim_lines(&left_out.replace(NONE, ""));
    out
}

/// The connections: how they were used, what became of them, and their times.
fn connections(seen: &Connections) -> String {
    let mut out = format!("\nConnections ({})\n", shortened(&transport(&seen.transport), 200));
    let mut row = |label: &str, value: u64| {
        if value > 0 {
            out += &format!("  {label:<26}{:>16}\n", count(value));
        }
    };
    row("opened", seen.opened);
    row("  during the trial", seen.opened_in_trial);
    row("  sessions resumed", seen.resumed);
    row("failed", seen.failed.values().sum());
    row("ended by the server", seen.closed_by_server);
    row("queries that waited", seen.waited);
    row("queries joined in a write", seen.joined);
    if let Some(memory_octets) = seen.server_memory_octets {
        out += &format!("  {:<26}{:>16}\n", "server's memory for each", octets(memory_octets));
    }
    let times = [
        ("waited for a connection", Some(&seen.waiting_ns)),
        ("connecting", seen.connect_ns.as_ref()),
        ("handshake", seen.handshake_ns.as_ref()),
    ];
    let times =
        times.into_iter().filter_map(|(label, times)| Some((label, times.filter(|times| times.max > 0)?)));
    out += &table_of_times("Time of connections", times);
    out + &table("Attempts without a connection", &seen.failed, place, 0).replace(NONE, "")
        + &table("Why handshakes failed", &seen.handshake_failures, String::clone, 0).replace(NONE, "")
        + &table("Said instead of answers", &seen.refusals, String::clone, 0).replace(NONE, "")
}

fn table<K>(title: &str, entries: &BTreeMap<K, u64>, name: impl Fn(&K) -> String, of: u64) -> String {
    let shown: Vec<_> = entries.iter().filter(|(_, number)| **number > 0).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{title}\n");
    for (key, number) in shown.iter().take(ROWS) {
        let name = shortened(&name(key), 40);
        out += &format!("  {name:<26}{:>16}  {:>10}\n", count(**number), share(**number, of));
    }
    if shown.len() > ROWS {
        out += &format!("  and {} more\n", shown.len() - ROWS);
    }
    out
}

fn latencies(trial: &Trial) -> String {
    if trial.valid == 0 {
        return String::new();
    }
    let times = [
        ("from the scheduled instant", &trial.latency_ns),
        ("from the sending", &trial.latency_from_send_ns),
    ];
    table_of_times("Latency of valid answers", times.into_iter())
}

fn table_of_times<'a>(title: &str, rows: impl Iterator<Item = (&'a str, &'a Latency)>) -> String {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let mut out = format!("\n{title:<28}");
    for head in ["p50", "p90", "p99", "p99.9", "max", "mean"] {
        out += &format!("{head:>11}");
    }
    out.push('\n');
    for (label, times) in rows {
        let cells = [times.p50, times.p90, times.p99, times.p999, times.max].map(time_of);
        let cells: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        out += &format!("  {label:<26}{cells}{:>11}\n", time_ns(times.mean));
    }
    out
}

fn sending(trial: &Trial) -> String {
    if trial.closed_loop {
        return closed_loop(trial);
    }
    let late = &trial.schedule_error_ns;
    let mut out = format!("\n{:<28}{:>11}{:>11}{:>11}{:>11}\n", "Sending", "p50", "p99", "p99.9", "max");
    out += &format!("  {:<26}", "late by");
    for value in [late.p50, late.p99, late.p999, late.max] {
        out += &format!("{:>11}", time_of(value));
    }
    out += &format!("\n\n{:<28}{:>11}{:>11}{:>11}\n", "Evenness, in windows of", "1 ms", "10 ms", "100 ms");
    let windows = [trial.windows.ms1, trial.windows.ms10, trial.windows.ms100];
    let row = |label: &str, value: fn(&Window) -> f64| {
        let cells: String = windows.iter().map(|window| format!("{:>11}", percent(value(window)))).collect();
        format!("  {label:<26}{cells}\n")
    };
    out + &row("worst deviation", |window| window.worst_pct)
        + &row("variation (sd / mean)", |window| window.cv_pct)
        + &row(&format!("windows over {} % off", WINDOW_DEVIATION.value), |window| window.off_pct)
}

/// A closed loop has no schedule to be late for.
fn closed_loop(trial: &Trial) -> String {
    let mut out = String::new();
    if let Some(experiments) = &trial.experiments {
        let (mean, sd) = (time_ns(experiments.mean_ns), time_ns(experiments.sd_ns));
        let many = plural(experiments.count as usize, "experiment", "experiments");
        out += &format!("\n{many} of 256 queries: {mean} each on average, standard deviation {sd}\n");
    }
    let note = "answers set the pace, so the rate is what server and window made of each other; latency counts from the \
                sending, and queries that a stalled server kept from being sent do not show in it.";
    out + &wrapped("\nClosed loop: ", note, 6)
}

fn observation(trial: &Trial, seen: &Observation) -> String {
    let mut out = String::new();
    let mut row = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            out += &format!("  {label:<26}{value:>16}\n");
        }
    };
    let each = |value: Option<f64>| value.map(|time| format!("{} µs", significant(time)));
    row("server, for each answer", each(dut_cpu_us_per_answer(trial)));
    row("server", seen.dut_cpu_pct.map(percent));
    let thread = seen.dut_hottest_thread.as_deref().unwrap_or("unnamed");
    row(&format!("  thread {}", shortened(thread, 16)), seen.dut_hottest_thread_pct.map(percent));
    row("Tester, for each query", each(seen.tester_cpu_us_per_query));
    row("anything else", seen.foreign_cpu_pct.map(percent));
    row("  of it in interrupts", seen.interrupt_pct.map(percent));
    row("taken by the hypervisor", seen.steal_pct.map(percent));
    row("memory of the server", seen.dut_memory_octets.map(octets));
    row("dropped at server's socket", seen.dut_socket_drops.map(count));
    row("dropped before any socket", seen.softnet_drops.map(count));
    row("queries at the AuthDNS", seen.auth_queries.map(count));
    row("answers of the AuthDNS", seen.auth_answers.map(count));
    row("  dropped at its sockets", seen.auth_socket_drops.map(count));
    let probed = seen.auth_probes.zip(seen.auth_probes_late);
    row(
        "AuthDNS late for the Tester",
        probed.map(|(asked, late)| format!("{} of {}", count(late), count(asked))),
    );
    row("AuthDNS queries per query", seen.auth_queries_per_query.map(|ratio| real(ratio, 3)));
    if out.is_empty() { out } else { format!("\nProcessors (of one) and counters\n{out}") }
}

/// What to try where answers came but were wrong.
fn hint(trial: &Trial) -> Option<String> {
    if trial.invalid == 0 && trial.invalid_reasons.is_empty() {
        return None;
    }
    let commonest = trial.invalid_reasons.iter().max_by_key(|(_, number)| **number);
    let seen =
        commonest.map_or_else(String::new, |(reason, _)| format!(" (mostly: {})", shortened(reason, 120)));
    let advice = if trial.valid_compat > trial.valid {
        "they hold an answer that is not the expected AAAA: check that --prefix is the server's DNS64 prefix, and that \
         --names and --suffix are the zone that its AuthDNS serves"
    } else {
        "check that the server forwards to the AuthDNS, and that DNS64 is on for this client"
    };
    Some(format!("the server answers, but wrongly{seen}; {advice}."))
}

fn trim_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counted_and_how_it_left_are_said() {
        let trial =
            Trial { outcome: Outcome::Fail, scheduled: 100, valid: 10, valid_compat: 98, ..Trial::default() };
        let headline =
            |validity: Validity, io: &str| headline(&Trial { validity, io: io.into(), ..trial.clone() });
        assert!(
            headline(Validity::Compat, "udp")
                .ends_with(": 2 queries without an answer in time that dns64perf++ takes for valid (2.00 %)")
        );
        assert!(
            headline(Validity::Response, "gso (unsegmented)")
                .contains("by gso (unsegmented): 90 queries without a response")
        );
        assert!(headline(Validity::Strict, "").contains("0 s: 90 queries without a valid answer in time"));
    }

    #[test]
    fn a_closed_loop_is_called_one() {
        let experiments = record::Experiments { count: 3, mean_ns: 2e6, sd_ns: 1e5, max_ns: 3e6 };
        let mut trial = Trial { load: "experiments:4".into(), closed_loop: true, ..Trial::default() };
        trial.experiments = Some(experiments);
        trial.answered = 10;
        trial.rcodes = [("NXDOMAIN".to_owned(), 10)].into();
        let text = trial_text(&trial);
        for part in
            ["closed loop (experiments:4)", "3 experiments of 256", "Closed loop: answers set", "NXDOMAIN"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("Evenness"));
        let poisson = trial_text(&Trial { load: "poisson:7".into(), ..Trial::default() });
        assert!(poisson.contains("(poisson:7)") && poisson.contains("Evenness"), "{poisson}");
        assert!(!poisson.contains("losed loop"));
    }
}
