//! Where a value stands in the file, and values of the common kinds: every error is one line with file, line and key.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys;
use super::raw::{Number, Text, Texts};

pub(super) type Result<T> = std::result::Result<T, ConfigError>;

/// Why there is no configuration: one line with file, line, key and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// The file itself cannot be had.
    pub(super) fn of_file(file: &Path, error: &dyn Display) -> Self {
        Self(format!("{}: cannot be read: {error}", file.display()))
    }
}

/// The text, for turning positions in it into lines of the file.
pub(super) struct Place<'t> {
    pub text: &'t str,
    pub file: &'t str,
}

impl Place<'_> {
    /// An error of the line that `at` is in.
    pub fn error(&self, at: usize, reason: impl Display) -> ConfigError {
        let line = self.text.bytes().take(at).filter(|&octet| octet == b'\n').count() + 1;
        // Texts of the operator must not break the one line of the error.
        let reason = reason.to_string().replace(|character: char| character.is_control(), " ");
        ConfigError(format!("{}:{line}: {reason}", self.file))
    }

    /// An error of a key as a whole.
    pub fn key_error(&self, key: &str, at: usize, reason: impl Display) -> ConfigError {
        self.error(at, format_args!("{key}: {reason}"))
    }

    /// An error of a key's value.
    pub fn value_error(&self, key: &str, value: &Text, reason: impl Display) -> ConfigError {
        let shown = value.get_ref().escape_debug();
        self.error(value.span().start, format_args!("{key} '{shown}': {reason}"))
    }

    /// An error of the TOML parser, with the key, which it does not name, and what the key takes.
    pub fn syntax_error(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end();
        let Some(path) = self.key_at(at) else { return self.toml_error(error, at) };
        let (reason, expected) = message.split_once(", expected ").unwrap_or((message, ""));
        if reason.starts_with("unknown field") {
            return self.key_error(&path, at, format_args!("no such key, write {expected}"));
        }
        let advice = keys::advice(&path).map_or(String::new(), |advice| format!(", write {advice}"));
        self.key_error(&path, at, format_args!("{reason}{advice}"))
    }

    /// An error of a text that is no TOML.
    fn toml_error(&self, error: &toml::de::Error, at: usize) -> ConfigError {
        let message = error.message().trim_end();
        let twice = error.span().filter(|_| message == "duplicate key");
        match twice.and_then(|span| self.text.get(span)) {
            Some(key) => self.key_error(key, at, "is written twice: take one out"),
            None => self.error(at, message),
        }
    }

    /// The key that stands at `at`, or whose value does, with its tables: `view[0].ptr`.
    fn key_at(&self, at: usize) -> Option<String> {
        let document = DeTable::parse(self.text).ok()?;
        key_in_table(document.get_ref(), at, "")
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        text: Option<&Text>,
        choices: &[(&str, T)],
    ) -> Result<Option<T>> {
        let Some(text) = text else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| word == text.get_ref());
        let (_, value) = found.ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|&(word, _)| word).collect();
            self.value_error(key, text, format_args!("choose {}", keys::alternatives(&words, "")))
        })?;
        Ok(Some(*value))
    }

    /// A number within the bounds that the table of keys gives.
    pub fn number(&self, key: &str, value: Option<&Number>, default: u64) -> Result<u64> {
        let Some(value) = value else { return Ok(default) };
        let (low, high) = keys::bounds(key);
        self.number_within(key, value, low, high)
    }

    /// A number within bounds.
    pub fn number_within(&self, key: &str, value: &Number, low: u64, high: u64) -> Result<u64> {
        let number = *value.get_ref();
        if (low..=high).contains(&number) {
            return Ok(number);
        }
        Err(self.error(value.span().start, format_args!("{key} {number}: must be {low} to {high}")))
    }

    /// Each text of a list that must not be empty, or the error of the first that is wrong.
    pub fn some<T, E: Display>(
        &self,
        key: &str,
        texts: &Texts,
        read: impl FnMut(&str) -> std::result::Result<T, E>,
    ) -> Result<Vec<T>> {
        if texts.get_ref().is_empty() {
            return Err(self.key_error(key, texts.span().start, "at least one is needed"));
        }
        self.list(key, texts, read)
    }

    /// Each text of a list, or the error of the first that is wrong.
    pub fn list<T, E: Display>(
        &self,
        key: &str,
        texts: &Texts,
        mut read: impl FnMut(&str) -> std::result::Result<T, E>,
    ) -> Result<Vec<T>> {
        let one = |(index, text): (usize, &Text)| {
            read(text.get_ref()).map_err(|error| self.value_error(&format!("{key}[{index}]"), text, error))
        };
        texts.get_ref().iter().enumerate().map(one).collect()
    }

    /// A path; one that is not absolute starts where the configuration file is.
    pub fn path(&self, key: &str, text: &Text) -> Result<PathBuf> {
        if text.get_ref().is_empty() || text.get_ref().contains(char::is_control) {
            return Err(self.value_error(key, text, "no path of a file"));
        }
        let directory = Path::new(self.file).parent().unwrap_or(Path::new(""));
        Ok(directory.join(text.get_ref()))
    }

    /// The path of a Unix socket.
    pub fn socket_path(&self, key: &str, text: &Text) -> Result<PathBuf> {
        let path = self.path(key, text)?;
        if path.as_os_str().len() > SOCKET_PATH_OCTETS_MAX {
            let reason =
                format_args!("longer than the {SOCKET_PATH_OCTETS_MAX} octets a socket's path can have");
            return Err(self.value_error(key, text, reason));
        }
        Ok(path)
    }
}

/// The octets of `sun_path`, without the zero at its end (unix(7)).
const SOCKET_PATH_OCTETS_MAX: usize = 107;

fn key_in_table(table: &DeTable<'_>, at: usize, above: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let dot = if above.is_empty() { "" } else { "." };
        let path = format!("{above}{dot}{}", key.get_ref());
        key_in_value(value, at, &path).or_else(|| key.span().contains(&at).then_some(path))
    })
}

fn key_in_value(value: &Spanned<DeValue<'_>>, at: usize, path: &str) -> Option<String> {
    let deeper = match value.get_ref() {
        DeValue::Table(table) => key_in_table(table, at, path),
        DeValue::Array(values) => {
            let each = |(index, value)| key_in_value(value, at, &format!("{path}[{index}]"));
            values.iter().enumerate().find_map(each)
        }
        _ => None,
    };
    deeper.or_else(|| value.span().contains(&at).then(|| path.to_owned()))
}
