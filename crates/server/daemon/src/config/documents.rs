//! The documents that are made of the declarations of keys: an example file and a manual page.

use std::fmt::Write;

use super::keys::{Key, NEEDED, TABLES};

/// What a key means, and when a new value counts.
pub(super) fn meaning(key: &Key) -> String {
    let when = if key.at_start { " A reload does not change this key." } else { "" };
    format!("{}{when}", key.meaning)
}

/// A configuration file with every key. Those behind a `#` show the default, or an example where that is
/// nothing.
pub fn sample() -> String {
    let mut out = String::from(
        "# The configuration of dns64d: every key, as in dns64d.toml(5). Keys behind a # show the default, or an \
         example\n# where the default is nothing. Paths that are not absolute start at the directory of this file.\n",
    );
    for table in TABLES {
        out.push('\n');
        if !table.heading.is_empty() {
            comment(&mut out, table.meaning);
            let mark = if table.keys.iter().any(is_needed) { "#" } else { "" };
            let _ = writeln!(out, "{mark}{}", table.heading);
        }
        for (index, key) in table.keys.iter().enumerate() {
            if table.heading.is_empty() && index > 0 {
                out.push('\n');
            }
            comment(&mut out, &meaning(key));
            let mark = if is_needed(key) && table.heading.is_empty() { "" } else { "#" };
            let _ = writeln!(out, "{mark}{} = {}", key.name, table.example(key));
        }
    }
    out
}

fn is_needed(key: &Key) -> bool {
    key.otherwise == NEEDED
}

/// Writes a text as comment lines.
fn comment(out: &mut String, text: &str) {
    let mut length = 0;
    for word in text.replace('`', "").split(' ') {
        if length == 0 || length + 1 + word.len() > COLUMNS {
            out.push_str(if length == 0 { "#" } else { "\n#" });
            length = 1;
        }
        let _ = write!(out, " {word}");
        length += 1 + word.len();
    }
    out.push('\n');
}

const COLUMNS: usize = 110;

/// The manual page dns64d.toml(5), in the language of man(7).
pub fn manual() -> String {
    let mut out = String::from(MANUAL_HEAD);
    for table in TABLES {
        if !table.heading.is_empty() {
            let _ = writeln!(out, ".SS {}", roff(table.heading));
        }
        let _ = writeln!(out, "{}", roff(table.meaning));
        for key in table.keys {
            let (default, example) = (table.default(key), table.example(key));
            let default = if key.otherwise.is_empty() { default } else { key.otherwise.to_owned() };
            let _ = writeln!(out, ".TP\n.B {}", roff(key.name));
            let _ = writeln!(out, "{}", roff(&meaning(key)));
            let _ = writeln!(out, ".br\nValue: {}. Default: {}.", roff(&key.takes()), roff(&default));
            if default != example {
                let _ = writeln!(out, ".br\nExample: {} = {}", roff(key.name), roff(&example));
            }
        }
    }
    out.push_str(MANUAL_TAIL);
    out
}

const MANUAL_HEAD: &str = ".TH DNS64D.TOML 5\n.SH NAME\ndns64d.toml \\- configuration of the DNS64 forwarder dns64d\n\
    .SH DESCRIPTION\nThe file is TOML. Every key is checked before anything starts, and an error names file, line, \
    key and reason. What is allowed and yet likely to do harm is a warning.\n\
    .B dns64d \\-\\-check\\-config\nonly checks. A key that is not known is an error.\n.PP\n\
    Times and sizes have their unit at the end of the key. Paths that are not absolute start at the directory of the \
    file. Texts, lists and tables are written as in the examples.\n.SH KEYS\n";

const MANUAL_TAIL: &str = ".SH EXAMPLE\nThe smallest file:\n.PP\n.EX\nupstreams = [\"192.0.2.1\"]\n.EE\n.SH SEE ALSO\n\
    .BR dns64d (8)\n";

/// A text without what roff would take for its own; code between backquotes stays as it is.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}
