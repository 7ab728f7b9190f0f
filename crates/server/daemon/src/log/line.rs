//! One event as one line.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use super::Field;
use crate::config::{Format, Level, Words};

/// Longer values are cut, in octets: a name with every octet escaped fits.
const VALUE_OCTETS_MAX: usize = 2048;

#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) format: Format,
    /// The journal takes a priority at the head (sd-daemon(3)) and knows the time.
    pub(super) journal: bool,
}

impl Style {
    /// The line of an event, with its line break. No value can break it into two.
    pub(super) fn line(self, level: Level, kind: &str, realtime_ns: u64, fields: &[Field<'_>]) -> String {
        let mut line = String::with_capacity(256);
        if self.journal {
            // Writing into a string cannot fail, here and below.
            let _ = write!(line, "<{}>", priority(level));
        }
        let mut pairs = Pairs { line: &mut line, format: self.format, first: true };
        pairs.open();
        if !self.journal {
            let time = UNIX_EPOCH + Duration::from_nanos(realtime_ns);
            pairs.add("time", &humantime::format_rfc3339_millis(time).to_string());
        }
        pairs.add("level", level.word());
        pairs.add("event", kind);
        for (key, value) in fields {
            pairs.add(key, &value.to_string());
        }
        pairs.close();
        line
    }
}

/// The priority of syslog(3).
const fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warning => 4,
        Level::Info => 6,
        Level::Debug => 7,
    }
}

struct Pairs<'l> {
    line: &'l mut String,
    format: Format,
    first: bool,
}

impl Pairs<'_> {
    fn open(&mut self) {
        if self.format == Format::Json {
            self.line.push('{');
        }
    }

    fn close(&mut self) {
        self.line.push_str(if self.format == Format::Json { "}\n" } else { "\n" });
    }

    fn add(&mut self, key: &str, value: &str) {
        let value = cut(value);
        let first = std::mem::replace(&mut self.first, false);
        let _ = match self.format {
            Format::Json => {
                let comma = if first { "" } else { "," };
                write!(self.line, "{comma}{}:{}", json(key), json(value))
            }
            Format::Text => {
                let space = if first { "" } else { " " };
                let plain = !value.is_empty()
                    && value.bytes().all(|octet| octet.is_ascii_graphic() && !matches!(octet, b'"' | b'='));
                if plain {
                    write!(self.line, "{space}{key}={value}")
                } else {
                    write!(self.line, "{space}{key}=\"{}\"", escaped(value))
                }
            }
        };
    }
}

/// A value for between quotes: control characters and the like become escapes, letters of all languages stay.
fn escaped(value: &str) -> String {
    let escaped: String = value.chars().flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'")
}

fn json(text: &str) -> String {
    // A string can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

fn cut(value: &str) -> &str {
    let mut end = value.len().min(VALUE_OCTETS_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_NS: u64 = 1_700_000_000_123_456_789;

    #[test]
    fn lines_say_when_what_and_how_grave() {
        let style = Style { format: Format::Text, journal: false };
        let line =
            style.line(Level::Warning, "upstream_down", AT_NS, &[("message", &"it's \"down\"\n"), ("n", &3)]);
        assert_eq!(
            line,
            "time=2023-11-14T22:13:20.123Z level=warning event=upstream_down message=\"it's \\\"down\\\"\\n\" n=3\n"
        );
        let style = Style { format: Format::Json, journal: true };
        let line = style.line(Level::Error, "x", AT_NS, &[("message", &"a\"b")]);
        assert_eq!(line, "<3>{\"level\":\"error\",\"event\":\"x\",\"message\":\"a\\\"b\"}\n");
    }

    proptest! {
        #[test]
        fn any_value_makes_one_line(value in any::<String>(), json in any::<bool>()) {
            let format = if json { Format::Json } else { Format::Text };
            let style = Style { format, journal: false };
            let line = style.line(Level::Info, "x", AT_NS, &[("value", &value)]);
            prop_assert_eq!(line.chars().filter(|c| c.is_control()).count(), 1);
            prop_assert!(line.ends_with('\n') && line.len() < VALUE_OCTETS_MAX * 10);
            if json {
                let read: serde_json::Value = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(read["value"].as_str().unwrap(), cut(&value));
            }
        }
    }
}
