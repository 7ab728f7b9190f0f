//! The block of a document that is rendered, and the text of a record.

use std::fmt;

use serde::Serialize;

const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

/// A document without a rendered block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBlock;

impl fmt::Display for NoBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the document lacks the lines {} and {}", BEGIN.trim_end(), END.trim_end())
    }
}

impl std::error::Error for NoBlock {}

/// The document with this text as its rendered block.
///
/// # Errors
/// The document has no such block.
pub fn fill(document: &str, text: &str) -> Result<String, NoBlock> {
    let (head, rest) = document.split_once(BEGIN).ok_or(NoBlock)?;
    let (_, tail) = rest.split_once(END).ok_or(NoBlock)?;
    Ok(format!("{head}{BEGIN}{text}{END}{tail}"))
}

/// A paragraph in lines that are as long as those of the documents.
pub(crate) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 110;
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > WIDTH {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += letters;
    }
    lines + "\n"
}

/// A record as the text of its file: indented, lists of numbers on one line.
///
/// # Errors
/// A value that JSON does not have.
pub fn json_text(record: &impl Serialize) -> serde_json::Result<String> {
    let pretty = serde_json::to_string_pretty(record)?;
    let (mut text, mut list) = (String::new(), None::<String>);
    for line in pretty.lines() {
        let word = line.trim();
        match &mut list {
            None if word.ends_with('[') => list = Some(line.to_owned()),
            None => text += &format!("{line}\n"),
            Some(numbers) if word.starts_with(']') => {
                text += &format!("{}{word}\n", numbers.trim_end());
                list = None;
            }
            Some(numbers) if word.trim_end_matches(',').parse::<f64>().is_ok() => {
                *numbers += &format!("{word} ");
            }
            Some(other) => {
                text += &format!("{other}\n");
                list = word.ends_with('[').then(|| line.to_owned());
                if list.is_none() {
                    text += &format!("{line}\n");
                }
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_replaced_and_nothing_else() {
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(fill(&document, "new\n"), Ok(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(fill("a\n", "new\n"), Err(NoBlock));
        assert_eq!(fill(&format!("{END}{BEGIN}"), "new\n"), Err(NoBlock));
    }

    #[test]
    fn paragraphs_have_short_lines_and_the_same_words() {
        let text = "word ".repeat(100);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.len() <= 110) && lines.lines().count() == 5, "{lines}");
        assert_eq!(lines.split_whitespace().count(), 100);
    }

    #[test]
    fn lists_of_numbers_are_on_one_line_and_say_the_same() {
        let value = serde_json::json!({"a": [1, 2.5], "b": [{"c": []}, {"c": [[1], [2, 3]]}], "d": ["x"]});
        let text = json_text(&value).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert!(text.contains("\"a\": [1, 2.5],\n"), "{text}");
    }
}
