//! Texts of a record may come from a hostile server: nothing of them may act on the reader's terminal or
//! page.

/// The text with every character replaced that is no visible text: controls other than line feed and tab,
/// marks that reverse the direction of writing, and code points that XML does not allow.
pub(crate) fn printable(text: String) -> String {
    if !text.chars().any(is_active) {
        return text;
    }
    text.chars().map(|c| if is_active(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// With spaces that do not break before units: `58,125 q/s` stays on one line.
pub(crate) fn unbroken(text: &str) -> String {
    const UNITS: [&str; 12] = ["q/s", "%", "ns", "µs", "ms", "s", "min", "h", "KiB", "MiB", "GiB", "TiB"];
    let mut out = String::with_capacity(text.len());
    for (index, word) in text.split(' ').enumerate() {
        let after_digit = out.ends_with(|c: char| c.is_ascii_digit());
        let unit = UNITS.contains(&word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%'));
        if index > 0 {
            out.push(if after_digit && unit { '\u{a0}' } else { ' ' });
        }
        out += word;
    }
    out
}

/// On one line, at most `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).take(most + 1).collect();
    match line.char_indices().nth(most.saturating_sub(1)) {
        Some((end, _)) if line.chars().count() > most => format!("{}…", line[..end].trim_end()),
        _ => line,
    }
}

fn is_active(c: char) -> bool {
    let reverses = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let not_xml = matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}');
    reverses || not_xml || (c.is_control() && c != '\n' && c != '\t')
}

/// A sentence from elsewhere that must not act on the terminal, and must not fill it.
pub fn one_line(text: &str) -> String {
    printable(shortened(text, 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\0\u{202e}\n".to_owned()), "a\u{fffd}[31mb\u{fffd}\u{fffd}\n");
        assert_eq!(printable("µs\t–".to_owned()), "µs\t–");
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(unbroken("at 5 q/s for 2 s, 3 of 9 %."), "at 5\u{a0}q/s for 2\u{a0}s, 3 of 9\u{a0}%.");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äö…");
        assert_eq!(shortened("a\nb", 8), "a b");
        assert_eq!(shortened("abc", 0), "…");
    }
}
