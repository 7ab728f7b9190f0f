//! Any text as the results of another tool: it becomes a record that can be written, read again and reported,
//! or one line of error.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use record::Results;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

/// Imports the text.
pub fn run(input: &[u8]) {
    let path: PathBuf = DIRECTORY.path().join("import");
    fs::write(&path, input).expect("room in a file");
    match cli::import::import(&path) {
        Ok(results) => check(&results),
        Err(error) => assert!(!error.to_string().contains(['\n', '\r']), "{error:?}"),
    }
}

fn check(results: &Results) {
    let json = serde_json::to_value(results).expect("JSON");
    let again: Results = serde_json::from_value(json.clone()).expect("a record: no figure is infinite");
    assert_eq!(serde_json::to_value(&again).expect("JSON"), json, "the record as it was written");
    let trials: Vec<_> = results.runs.iter().flat_map(|run| &run.trials).collect();
    assert!(!trials.is_empty(), "a record without a trial");
    for trial in &trials {
        assert!(trial.valid <= trial.sent, "{} of {} answered", trial.valid, trial.sent);
        assert!(trial.duration_s.is_finite() && (0.0..=86_400.0).contains(&trial.duration_s));
    }
    assert!(!report::html(results).is_empty());
    assert!(!report::text(results).is_empty());
}
