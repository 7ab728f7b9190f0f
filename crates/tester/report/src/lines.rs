//! Lines of a terminal: a label and its value, broken between words.

/// Columns of the labels.
const LABEL: usize = 30;
/// Columns that a line may fill.
const WIDTH: usize = 96;

/// A label and its value; a long value goes on below itself.
pub(super) fn line(label: &str, value: &str) -> String {
    let lead = format!("  {label:<LABEL$}  ");
    let hang = lead.chars().count();
    wrapped(&lead, value, hang)
}

/// The lead and the text, broken between words into lines of [`WIDTH`] columns; all but the first hang so
/// deep.
pub(super) fn wrapped(lead: &str, text: &str, hang: usize) -> String {
    let mut out = lead.to_owned();
    let mut column = lead.chars().count();
    let mut fresh = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && column + 1 + length > WIDTH {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', hang));
            (column, fresh) = (hang, true);
        }
        if !fresh {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
        fresh = false;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_hang_below_their_start() {
        let text = line("Label", &"word ".repeat(30));
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|first| first.starts_with("  Label  ") && first.len() <= WIDTH));
        assert!(lines.all(|next| next.starts_with(&" ".repeat(LABEL + 4)) && next.len() <= WIDTH));
        assert!(line("Label", &"x".repeat(200)).lines().count() == 1);
    }
}
