//! Every query with all that is known of it, as Parquet, in the columns of `queries`.

use std::io;
use std::sync::Arc;

use engine::querylog::QueryLog;
use parquet::basic::Encoding;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::Finished;
use super::rows::{Names, Row, class_word, rows};
use super::sink::Sink;

/// Instants are in ns since 1970.
const SCHEMA: &str = "
message query {
    required int64 number (INTEGER(64, false));
    required binary name (STRING);
    optional int64 scheduled_ns (INTEGER(64, false));
    optional int64 sent_ns (INTEGER(64, false));
    optional int64 received_ns (INTEGER(64, false));
    required binary class (STRING);
    optional int32 rcode;
    optional int64 latency_ns (INTEGER(64, false));
}";
/// Queries written at once: about 10 MB in memory.
const GROUP: usize = 1 << 16;

/// Writes the file.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut Sink, finished: &Finished<'_>, log: &QueryLog) -> io::Result<()> {
    write_groups(out, finished, log).map_err(io::Error::other)
}

fn write_groups(out: &mut Sink, finished: &Finished<'_>, log: &QueryLog) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_dictionary_enabled(false)
        .set_column_encoding("name".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_column_dictionary_enabled("class".into(), true)
        .set_column_dictionary_enabled("rcode".into(), true);
    let numbers = ["number", "scheduled_ns", "sent_ns", "received_ns", "latency_ns"];
    let properties = numbers.into_iter().fold(properties, |properties, column| {
        properties.set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED)
    });
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
    let mut names = Names::new(&finished.tried.workload);
    let mut rows = rows(finished, log).peekable();
    while rows.peek().is_some() {
        let group: Vec<Row> = rows.by_ref().take(GROUP).collect();
        let mut columns = file.next_row_group()?;
        let mut index = 0;
        while let Some(column) = columns.next_column()? {
            write_column(column, index, &group, &mut names)?;
            index += 1;
        }
        columns.close()?;
    }
    file.close().map(drop)
}

fn write_column(
    mut column: SerializedColumnWriter<'_>,
    index: usize,
    rows: &[Row],
    names: &mut Names<'_>,
) -> Result<(), ParquetError> {
    let number = |row: &Row| match index {
        0 => Some(row.number),
        2 => row.scheduled_ns,
        3 => row.sent_ns,
        4 => row.received_ns,
        _ => row.latency_ns(),
    };
    match column.untyped() {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let values: Vec<i64> = rows.iter().filter_map(number).map(|value| value as i64).collect();
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(number(row).is_some())).collect();
            writer.write_batch(&values, (index > 0).then_some(&levels), None)?;
        }
        ColumnWriter::Int32ColumnWriter(writer) => {
            let values: Vec<i32> = rows.iter().filter_map(|row| row.rcode).map(i32::from).collect();
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.rcode.is_some())).collect();
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let text = |row: &Row| match index {
                1 => ByteArray::from(names.name(row.number).into_bytes()),
                _ => ByteArray::from(class_word(row.class)),
            };
            let values: Vec<ByteArray> = rows.iter().map(text).collect();
            writer.write_batch(&values, None, None)?;
        }
        _ => return Err(ParquetError::General("the schema has no such column".into())),
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use super::super::sink::write_to;
    use super::*;
    use crate::output::tests::{START_UNIX_NS, Sample};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn every_query_has_its_row() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("queries.parquet");
        let sample = Sample::new();
        write_to(&path, |sink| write(sink, &sample.finished(), sample.log())).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[3].get_ulong(0).unwrap(), 3);
        assert_eq!(rows[3].get_string(1).unwrap(), "010-000-000-003.dns64perf.test.");
        assert_eq!(rows[3].get_ulong(2).unwrap(), START_UNIX_NS + 300_000_000);
        assert_eq!((rows[3].get_string(5).unwrap().as_str(), rows[3].get_int(6).unwrap()), ("invalid", 2));
        assert_eq!(rows[3].get_ulong(7).unwrap(), 501_000);
        assert_eq!(rows[6].get_string(5).unwrap(), "unsent");
        assert!(rows[6].get_ulong(2).is_err() && rows[6].get_int(6).is_err(), "null");
    }
}
