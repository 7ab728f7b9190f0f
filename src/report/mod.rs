//! From a record to what a person reads. Knows only the record.
