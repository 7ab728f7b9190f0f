//! What the benchmarks in a lab share: the machine in a line, and the place of the results in a document.

use std::fs;
use std::io;

const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

/// Processors and kernel.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processors = processor.lines().filter(|line| line.starts_with("processor")).count();
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{processors} x {model}, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Writes a template into a file, with the text between its markers.
///
/// # Errors
/// The template has no markers, or the file cannot be written.
#[allow(dead_code, reason = "not every benchmark has its text in a template")]
pub fn fill(template: &str, path: &str, text: &str) -> io::Result<()> {
    fs::write(path, filled(path, template, text)?)
}

/// Replaces what is between the markers of a document, or prints.
///
/// # Errors
/// The document is not there or has no markers.
#[allow(dead_code, reason = "not every benchmark writes into its document")]
pub fn write(out: Option<&str>, text: &str) -> io::Result<()> {
    let Some(path) = out else {
        println!("{text}");
        return Ok(());
    };
    let old = fs::read_to_string(path)?;
    fs::write(path, filled(path, &old, text)?)
}

fn filled(path: &str, document: &str, text: &str) -> io::Result<String> {
    let parts = document.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) =
        parts.ok_or_else(|| io::Error::other(format!("{path} lacks the lines {BEGIN}{END}")))?;
    Ok(format!("{head}{BEGIN}{text}{END}{tail}"))
}
