//! An answer of the control socket, as text for people or as JSON for programs.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Names and values, in the order in which they are shown.
pub type Pairs = Vec<(String, Value)>;

/// What a control command is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// One line of text.
    Words(String),
    /// One thing with its properties.
    Pairs(Pairs),
    /// Several things with the same properties, one a line.
    Table(Vec<Pairs>),
}

impl Reply {
    /// The answer as JSON, with a line break at its end.
    pub fn json(&self) -> String {
        let object = |pairs: &Pairs| Value::Object(Map::from_iter(pairs.iter().cloned()));
        let value = match self {
            Self::Words(words) => {
                Value::Object(Map::from_iter([("message".to_owned(), words.as_str().into())]))
            }
            Self::Pairs(pairs) => object(pairs),
            Self::Table(rows) => Value::Array(rows.iter().map(object).collect()),
        };
        format!("{value}\n")
    }

    /// The answer as text, with a line break at its end.
    pub fn text(&self) -> String {
        match self {
            Self::Words(words) => format!("{words}\n"),
            Self::Pairs(pairs) => {
                let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
                // Writing into a string cannot fail.
                pairs.iter().fold(String::new(), |mut text, (name, value)| {
                    let _ = writeln!(text, "{name:width$}  {}", shown(value));
                    text
                })
            }
            Self::Table(rows) => table(rows),
        }
    }
}

/// Columns as wide as their longest entry; the last one ends where it ends.
fn table(rows: &[Pairs]) -> String {
    let Some(first) = rows.first() else { return "none\n".to_owned() };
    let heads = first.iter().map(|(name, _)| name.clone()).collect();
    let body = rows.iter().map(|row| row.iter().map(|(_, value)| shown(value)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(body).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..first.len()).filter_map(width).collect();
    lines.iter().fold(String::new(), |mut text, line| {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
        text
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_read_the_same() {
        let row = |address: &str, up: bool| -> Pairs {
            vec![("address".into(), address.into()), ("up".into(), up.into()), ("queries".into(), 7.into())]
        };
        let reply = Reply::Table(vec![row("::1", true), row("192.0.2.1:53", false)]);
        assert_eq!(reply.text(), "address       up   queries\n::1           yes  7\n192.0.2.1:53  no   7\n");
        let read: Value = serde_json::from_str(&reply.json()).unwrap();
        assert_eq!(read[1]["up"], Value::Bool(false));
        let reply = Reply::Pairs(vec![("a".into(), 1.into()), ("list".into(), vec!["x", "y"].into())]);
        assert_eq!(reply.text(), "a     1\nlist  x, y\n");
        assert_eq!(reply.json(), "{\"a\":1,\"list\":[\"x\",\"y\"]}\n");
        assert_eq!(Reply::Words("done".into()).json(), "{\"message\":\"done\"}\n");
        assert_eq!(Reply::Table(Vec::new()).text(), "none\n");
    }
}
