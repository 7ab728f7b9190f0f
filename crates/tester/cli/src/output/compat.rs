//! Every query in the columns of dns64perf++.
//!
//! Its file (`dns64perf.csv`) begins with six lines about the run and an empty one; then come a line of
//! column names and one for each query, separated by semicolons: the queries of its first thread, those of
//! its second, and so on. Times are in ns since 1970. A query without an answer has the receive time 0 and
//! the round-trip time -1; one answered after the timeout is `received` but not `answered`, and keeps its
//! round-trip time, which counts from the sending.

use std::io::{self, Write};

use engine::pacer::SECOND_NS;
use engine::querylog::QueryLog;

use super::Finished;
use super::rows::{Questions, Row, rows_of, was_planned};

/// Writes the file.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, finished: &Finished<'_>, log: &QueryLog) -> io::Result<()> {
    header(out, finished, log)?;
    let mut questions = Questions::new(&finished.tried.workload);
    for thread in 0..finished.threads.max(1) as u64 {
        for row in rows_of(finished, log, thread) {
            let (name, _) = questions.of(row.number).unwrap_or_default();
            line(out, &name, thread, &row, finished.timeout_ns)?;
        }
    }
    Ok(())
}

fn header(out: &mut impl Write, finished: &Finished<'_>, log: &QueryLog) -> io::Result<()> {
    let threads = finished.threads.max(1) as u64;
    // Each of its threads waits so long between its own queries.
    let delay_ns = threads * SECOND_NS / finished.tried.trial.rate_qps.max(1);
    writeln!(out, "dns64perf++ test parameters")?;
    writeln!(out, "server: {}", finished.server.ip())?;
    writeln!(out, "port: {}", finished.server.port())?;
    let requests = log.iter().filter(|(_, entry)| was_planned(finished, entry)).count();
    writeln!(out, "number of requests: {requests}")?;
    writeln!(out, "burst size: 1")?;
    writeln!(out, "number of threads: {threads}")?;
    writeln!(out, "delay between bursts: {delay_ns} ns\n")?;
    writeln!(out, "query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]")
}

fn line(out: &mut impl Write, name: &str, thread: u64, row: &Row, timeout_ns: u64) -> io::Result<()> {
    let (sent_ns, received_ns) = (row.sent_ns.unwrap_or(0), row.received_ns.unwrap_or(0));
    let rtt_ns = row.round_trip_ns();
    let answered = row.compat && rtt_ns.is_some_and(|rtt_ns| rtt_ns < timeout_ns);
    let rtt = rtt_ns.map_or(-1, |rtt_ns| i64::try_from(rtt_ns).unwrap_or(i64::MAX));
    let (received, answered) = (u8::from(row.received_ns.is_some()), u8::from(answered));
    writeln!(out, "{name};{thread};{sent_ns};{received_ns};{received};{answered};{rtt}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::{START_UNIX_NS, Sample};

    #[test]
    fn lost_late_and_wrong_queries_are_as_dns64perf_has_them() {
        let sample = Sample::new();
        let mut out = Vec::new();
        write(&mut out, &sample.finished(), sample.log()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (head, rows) = text.split_once("\n\n").unwrap();
        assert_eq!(
            head,
            "dns64perf++ test parameters\nserver: ::1\nport: 53\nnumber of requests: 8\nburst size: 1\n\
             number of threads: 2\ndelay between bursts: 200000000 ns"
        );
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows[0], "query;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]");
        let cells = |row: usize| rows[1 + row].split(';').collect::<Vec<_>>();
        let at = |ns: u64| (START_UNIX_NS + ns).to_string();
        // Thread 0 has the even queries. 0 is valid.
        assert_eq!(
            cells(0),
            ["010-000-000-000.dns64perf.test.", "0", &at(1000), &at(501_000), "1", "1", "500000"]
        );
        assert_eq!(cells(1)[2..], [&at(200_001_000), "0", "0", "0", "-1"], "2 is lost");
        assert_eq!(cells(2)[4..], ["1", "0", "1100000000"], "4 is late");
        assert_eq!(cells(3)[2..], ["0", "0", "0", "0", "-1"], "6 was never sent");
        // 1 carries a wrong address, which dns64perf++ does not look at; 3 is a SERVFAIL.
        assert_eq!(cells(4)[..2], ["010-000-000-001.dns64perf.test.", "1"]);
        assert_eq!(cells(4)[4..], ["1", "1", "500000"]);
        assert_eq!(cells(5)[4..], ["1", "0", "500000"]);
        // 5 was sent so late that it is late by the schedule, but not by the sending.
        assert_eq!(cells(6)[4..], ["1", "1", "999999999"]);
        // dns64perf++ takes the time even where the kernel refuses.
        assert_eq!(cells(7)[2..], [&at(700_001_000), "0", "0", "0", "-1"]);
        assert_eq!(rows.len(), 9);
    }
}
