//! Every query with all that is known of it, as comma-separated values (RFC 4180, with line feeds).

use std::io::{self, Write};

use csv::{Terminator, WriterBuilder};
use engine::querylog::QueryLog;
use serde::Serialize;

use super::Finished;
use super::rows::{Questions, class_word, rows};

/// The columns. Instants are in ns since 1970; a cell is empty where there is nothing to say.
#[derive(Serialize)]
struct Line<'a> {
    number: u64,
    name: Option<&'a str>,
    qtype: Option<u16>,
    scheduled_ns: Option<u64>,
    sent_ns: Option<u64>,
    received_ns: Option<u64>,
    class: &'static str,
    rcode: Option<u8>,
    latency_ns: Option<u64>,
}

/// Writes the file.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, finished: &Finished<'_>, log: &QueryLog) -> io::Result<()> {
    let mut csv = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out);
    let mut questions = Questions::new(&finished.tried.workload);
    for row in rows(finished, log) {
        let question = questions.of(row.number);
        csv.serialize(Line {
            number: row.number,
            name: question.as_ref().map(|(name, _)| name.as_str()),
            qtype: question.as_ref().map(|(_, qtype)| *qtype),
            scheduled_ns: row.scheduled_ns,
            sent_ns: row.sent_ns,
            received_ns: row.received_ns,
            class: class_word(row.class),
            rcode: row.rcode,
            latency_ns: row.latency_ns(),
        })?;
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::{START_UNIX_NS, Sample};

    #[test]
    fn every_query_has_its_line() {
        let sample = Sample::new();
        let mut out = Vec::new();
        write(&mut out, &sample.finished(), sample.log()).unwrap();
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let header = reader.headers().unwrap().iter().collect::<Vec<_>>().join(",");
        assert_eq!(header, "number,name,qtype,scheduled_ns,sent_ns,received_ns,class,rcode,latency_ns");
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let classes: Vec<&str> = rows.iter().map(|row| &row[6]).collect();
        assert_eq!(classes, ["valid", "invalid", "lost", "invalid", "late", "late", "unsent", "send_error"]);
        let at = |ns: u64| (START_UNIX_NS + ns).to_string();
        assert_eq!(&rows[3][1], "010-000-000-003.dns64perf.test.");
        assert_eq!(
            rows[3].iter().skip(3).collect::<Vec<_>>(),
            [&at(300_000_000), &at(300_001_000), &at(300_501_000), "invalid", "2", "501000"]
        );
        assert_eq!(rows[6].iter().skip(3).collect::<Vec<_>>(), ["", "", "", "unsent", "", ""]);
        assert_eq!(rows[2].iter().skip(5).collect::<Vec<_>>(), ["", "lost", "", ""]);
    }
}
