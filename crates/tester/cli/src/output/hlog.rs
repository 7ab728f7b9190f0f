//! Latencies as an HDR histogram interval log (version 1.3), which the tools around HdrHistogram read.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use engine::querylog::QueryLog;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError,
};

use super::Finished;
use super::cuts::cut;

type Log<'a, 'b, W> = IntervalLogWriter<'a, 'b, W, V2DeflateSerializer>;

/// Writes the latencies of the valid answers in ns: one interval for the whole trial, or one for each
/// `interval_ns` of the list of its queries.
///
/// # Errors
/// Those of the writer.
pub fn write(
    out: &mut impl Write,
    finished: &Finished<'_>,
    intervals: Option<(&QueryLog, u64)>,
) -> io::Result<()> {
    let start = UNIX_EPOCH + Duration::from_nanos(finished.tried.start_unix_ns);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("latencies in ns of valid answers, from the scheduled instant")
        .add_comment(&format!("trial at {} q/s", finished.tried.trial.rate_qps))
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(out, &mut serializer)?;
    let Some((queries, interval_ns)) = intervals else {
        let length = Duration::from_secs_f64(finished.tried.trial.duration_s.max(0.0));
        return interval(&mut log, Duration::ZERO, length, &finished.tried.latency_ns);
    };
    cut(finished, queries, interval_ns, |cut| {
        let (start, length) = (Duration::from_nanos(cut.start_ns), Duration::from_nanos(cut.length_ns));
        interval(&mut log, start, length, &cut.latency_ns)
    })
}

fn interval<W: Write>(
    log: &mut Log<'_, '_, W>,
    start: Duration,
    length: Duration,
    latency_ns: &Histogram<u64>,
) -> io::Result<()> {
    log.write_histogram(latency_ns, start, length, None).map_err(|error| match error {
        IntervalLogWriterError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::Sample;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn read(octets: &[u8]) -> Vec<u64> {
        let entries = IntervalLogIterator::new(octets).map(Result::unwrap);
        let histograms = entries.filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval.encoded_histogram().to_owned()),
            _ => None,
        });
        histograms
            .map(|text| {
                let octets = decode_base64(&text);
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut octets.as_slice()).unwrap();
                histogram.len()
            })
            .collect()
    }

    fn decode_base64(text: &str) -> Vec<u8> {
        let digit = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits = text.bytes().filter(|c| *c != b'=').map(|c| u32::from(digit(c)));
        let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
        for digit in digits {
            (bits, held) = (bits << 6 | digit, held + 6);
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
            }
        }
        out
    }

    #[test]
    fn the_log_holds_what_was_recorded() {
        let sample = Sample::new();
        let mut out = Vec::new();
        write(&mut out, &sample.finished(), None).unwrap();
        assert_eq!(read(&out), [1]);
        out.clear();
        write(&mut out, &sample.finished(), Some((sample.log(), 200_000_000))).unwrap();
        assert_eq!(read(&out), [1, 0, 0, 0]);
        assert!(String::from_utf8(out).unwrap().contains("#[StartTime: 1700000000"));
    }
}
