//! Every query with all that is known of it, as Parquet, in the columns of `queries`.

use std::io;
use std::sync::Arc;

use engine::querylog::QueryLog;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::Finished;
use super::rows::{Questions, Row, class_word, rows};
use super::sink::Sink;

/// Instants are in ns since 1970.
const SCHEMA: &str = "
message query {
    required int64 number (INTEGER(64, false));
    optional binary name (STRING);
    optional int32 qtype (INTEGER(16, false));
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
        .set_column_dictionary_enabled("qtype".into(), true)
        .set_column_dictionary_enabled("rcode".into(), true);
    let numbers = ["number", "scheduled_ns", "sent_ns", "received_ns", "latency_ns"];
    let properties = numbers.into_iter().fold(properties, |properties, column| {
        properties.set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED)
    });
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
    let mut questions = Questions::new(&finished.tried.workload);
    let mut rows = rows(finished, log).peekable();
    while rows.peek().is_some() {
        let group: Vec<Row> = rows.by_ref().take(GROUP).collect();
        write_group(file.next_row_group()?, &group, &mut questions)?;
    }
    file.close().map(drop)
}

/// The columns in the order of the schema.
fn write_group(
    mut columns: SerializedRowGroupWriter<'_, &mut Sink>,
    rows: &[Row],
    questions: &mut Questions<'_>,
) -> Result<(), ParquetError> {
    let asked: Vec<Option<(String, u16)>> = rows.iter().map(|row| questions.of(row.number)).collect();
    let (names, types): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .map(|asked| asked.map_or((None, None), |(name, qtype)| (Some(name), Some(qtype))))
        .unzip();
    let classes = rows.iter().map(|row| class_word(row.class).to_owned());
    let numbers: Vec<i64> = rows.iter().map(|row| row.number as i64).collect();
    let ns = |value: fn(&Row) -> Option<u64>| rows.iter().map(move |row| value(row).map(|ns| ns as i64));

    required::<Int64Type>(&mut columns, &numbers)?;
    optional::<ByteArrayType>(
        &mut columns,
        names.into_iter().map(|name| name.map(|name| ByteArray::from(name.into_bytes()))),
    )?;
    optional::<Int32Type>(&mut columns, types.into_iter().map(|qtype| qtype.map(i32::from)))?;
    optional::<Int64Type>(&mut columns, ns(|row| row.scheduled_ns))?;
    optional::<Int64Type>(&mut columns, ns(|row| row.sent_ns))?;
    optional::<Int64Type>(&mut columns, ns(|row| row.received_ns))?;
    let classes: Vec<ByteArray> = classes.map(|word| ByteArray::from(word.into_bytes())).collect();
    required::<ByteArrayType>(&mut columns, &classes)?;
    optional::<Int32Type>(&mut columns, rows.iter().map(|row| row.rcode.map(i32::from)))?;
    optional::<Int64Type>(&mut columns, ns(Row::latency_ns))?;
    columns.close().map(drop)
}

fn required<T: DataType>(
    columns: &mut SerializedRowGroupWriter<'_, &mut Sink>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    write_column::<T>(columns, values, None)
}

fn optional<T: DataType>(
    columns: &mut SerializedRowGroupWriter<'_, &mut Sink>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let mut levels = Vec::new();
    let values: Vec<T::T> = cells.inspect(|cell| levels.push(i16::from(cell.is_some()))).flatten().collect();
    write_column::<T>(columns, &values, Some(&levels))
}

fn write_column<T: DataType>(
    columns: &mut SerializedRowGroupWriter<'_, &mut Sink>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".into());
    let mut column = columns.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
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
        assert_eq!(rows[3].get_ulong(3).unwrap(), START_UNIX_NS + 300_000_000);
        assert_eq!(rows[3].get_ushort(2).unwrap(), 28);
        assert_eq!((rows[3].get_string(6).unwrap().as_str(), rows[3].get_int(7).unwrap()), ("invalid", 2));
        assert_eq!(rows[3].get_ulong(8).unwrap(), 501_000);
        assert_eq!(rows[6].get_string(6).unwrap(), "unsent");
        assert!(rows[6].get_ulong(3).is_err() && rows[6].get_int(7).is_err(), "null");
    }
}
