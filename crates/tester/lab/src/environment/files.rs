//! Small files of `/proc` and `/sys`, read so that a missing or malformed file is no error.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No file that is read here is longer, even on machines with many processors; the rest is not looked at.
const FILE_OCTETS_MAX: u64 = 4 << 20;
/// No machine has more processors or nodes.
const CPUS_MAX: usize = 8192;

/// The root of the file system, another one in tests.
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn system() -> Self {
        Self { root: "/".into() }
    }

    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.into() }
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The whole text, empty if there is none.
    pub(super) fn text(&self, path: &str) -> String {
        read_bounded(&self.root.join(path)).unwrap_or_default()
    }

    /// The first line, if it is not empty.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path);
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// The first N numbers of the first line.
    pub(super) fn numbers<T: FromStr + Copy + Default, const N: usize>(&self, path: &str) -> Option<[T; N]> {
        let line = self.line(path)?;
        let mut numbers = [T::default(); N];
        let mut words = line.split_whitespace();
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        Some(numbers)
    }

    /// The value of the first line `key separator value`.
    pub(super) fn value(&self, path: &str, key: &str, separator: char) -> Option<String> {
        let text = self.text(path);
        let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut octets = Vec::new();
    File::open(path)?.take(FILE_OCTETS_MAX).read_to_end(&mut octets)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Reads a list like `0-3,8`, leaving out what is not understood.
pub(super) fn parse_cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { continue };
        cpus.extend((first..=last.min(CPUS_MAX)).take(CPUS_MAX.saturating_sub(cpus.len())));
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_and_bounded() {
        assert_eq!(parse_cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpu_list("5"), [5]);
        assert_eq!(parse_cpu_list("3-1,,x,-,2-"), [0usize; 0]);
        assert_eq!(parse_cpu_list("0-99999999999999").len(), CPUS_MAX);
        assert_eq!(parse_cpu_list(&"0-8191,".repeat(1000)).len(), CPUS_MAX);
    }
}
