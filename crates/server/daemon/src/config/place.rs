//! Where a value stands in the file, and values of the common kinds: every error is one line with file, line
//! and key.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{TABLES, Text, Texts};

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
pub(super) struct SourceText<'t> {
    pub text: &'t str,
    pub file: &'t str,
}

impl SourceText<'_> {
    /// An error of the line that `at` is in.
    pub fn error(&self, at: usize, reason: impl Display) -> ConfigError {
        let line = self.text.bytes().take(at).filter(|&octet| octet == b'\n').count() + 1;
        // Texts of the operator must not break the one line of the error.
        let reason = reason.to_string().replace(|character: char| character.is_control(), " ");
        ConfigError(format!("{}:{line}: {reason}", self.file))
    }

    /// An error of a key that need not be in the file.
    pub fn key_error(&self, key: &str, at: usize, reason: impl Display) -> ConfigError {
        self.error(at, format_args!("{key}: {reason}"))
    }

    /// An error of what stands at `at`.
    pub fn error_at(&self, at: usize, reason: impl Display) -> ConfigError {
        self.key_error(&self.key_at(at).unwrap_or_default(), at, reason)
    }

    pub fn text_error(&self, text: &Text, reason: impl Display) -> ConfigError {
        let at = text.span().start;
        self.value_error(&self.key_at(at).unwrap_or_default(), at, text.get_ref(), reason)
    }

    /// An error of a key's value.
    pub fn value_error(&self, key: &str, at: usize, value: &str, reason: impl Display) -> ConfigError {
        self.error(at, format_args!("{key} '{}': {reason}", value.escape_debug()))
    }

    /// A number that is too small or too large.
    pub fn out_of_bounds(&self, key: &str, at: usize, number: u64, low: u64, high: u64) -> ConfigError {
        self.error(at, format_args!("{key} {number}: must be {low} to {high}"))
    }

    /// An error of a value's type, with the key, which serde does not name, and what the key takes.
    pub fn type_error(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end();
        let path = self.key_at(at).unwrap_or_default();
        let reason = message.split_once(", expected ").map_or(message, |(reason, _)| reason);
        let advice = advice(&path).map_or(String::new(), |advice| format!(", write {advice}"));
        self.key_error(&path, at, format_args!("{reason}{advice}"))
    }

    /// An error of a text that is no TOML.
    pub fn toml_error(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end();
        let twice = error.span().filter(|_| message == "duplicate key");
        match twice.and_then(|span| self.text.get(span)) {
            Some(key) => self.key_error(key, at, "is written twice: take one out"),
            None => self.error(at, message),
        }
    }

    /// The key that stands at `at`, or whose value does, with its tables: `view[0].ptr`.
    pub fn key_at(&self, at: usize) -> Option<String> {
        let document = DeTable::parse(self.text).ok()?;
        key_in_table(document.get_ref(), at, "")
    }

    /// Each text of a list that must not be empty, or the error of the first that is wrong.
    pub fn some<T, E: Display>(
        &self,
        texts: &Texts,
        read: impl FnMut(&str) -> std::result::Result<T, E>,
    ) -> Result<Vec<T>> {
        if texts.get_ref().is_empty() {
            return Err(self.error_at(texts.span().start, "at least one is needed"));
        }
        self.list(texts, read)
    }

    /// Each text of a list, or the error of the first that is wrong.
    pub fn list<T, E: Display>(
        &self,
        texts: &Texts,
        mut read: impl FnMut(&str) -> std::result::Result<T, E>,
    ) -> Result<Vec<T>> {
        let one = |text: &Text| read(text.get_ref()).map_err(|error| self.text_error(text, error));
        texts.get_ref().iter().map(one).collect()
    }

    /// A path; one that is not absolute starts where the configuration file is.
    pub fn path(&self, text: &Text) -> Result<PathBuf> {
        if text.get_ref().is_empty() || text.get_ref().contains(char::is_control) {
            return Err(self.text_error(text, "no path of a file"));
        }
        let directory = Path::new(self.file).parent().unwrap_or(Path::new(""));
        Ok(directory.join(text.get_ref()))
    }

    /// The path of a Unix socket.
    pub fn socket_path(&self, text: &Text) -> Result<PathBuf> {
        let path = self.path(text)?;
        if path.as_os_str().len() > SOCKET_PATH_OCTETS_MAX {
            let reason =
                format_args!("longer than the {SOCKET_PATH_OCTETS_MAX} octets a socket's path can have");
            return Err(self.text_error(text, reason));
        }
        Ok(path)
    }
}

/// The octets of `sun_path`, without the zero at its end (unix(7)).
const SOCKET_PATH_OCTETS_MAX: usize = 107;

/// The path of a key in a table; a name that TOML would put between quotes has them.
pub(super) fn join(above: &str, name: &str) -> String {
    let dot = if above.is_empty() { "" } else { "." };
    let is_bare =
        !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"_-".contains(&octet));
    let quote = if is_bare { "" } else { "'" };
    format!("{above}{dot}{quote}{}{quote}", name.escape_debug())
}

/// What to write for the key of a path like `view[0].ptr`.
fn advice(path: &str) -> Option<String> {
    let (table, name) = path.split_once('.').unwrap_or(("", path));
    let without_index = |text: &'_ str| text.split('[').next().unwrap_or_default().to_owned();
    let (table, name) = (without_index(table), without_index(name));
    let table = TABLES.iter().find(|candidate| candidate.name() == table)?;
    let key = table.key(&name)?;
    Some(format!("{}, for example {}", key.takes(), table.example(key)))
}

fn key_in_table(table: &DeTable<'_>, at: usize, above: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let path = join(above, key.get_ref());
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
