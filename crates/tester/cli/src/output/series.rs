//! The course of a trial, an interval a line, as comma-separated values.

use std::io::{self, Write};

use csv::{Terminator, WriterBuilder};
use record::Interval;

/// Writes the file: `start_s,sent,valid,failed`.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, series: &[Interval]) -> io::Result<()> {
    let mut csv = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out);
    for interval in series {
        csv.serialize(interval)?;
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_named() {
        let mut out = Vec::new();
        write(&mut out, &[Interval { start_s: 0.1, sent: 3, valid: 2, failed: 1 }]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "start_s,sent,valid,failed\n0.1,3,2,1\n");
    }
}
