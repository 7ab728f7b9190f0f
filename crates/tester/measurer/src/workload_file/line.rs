//! One query of a text file: a line.

use std::borrow::Cow;

use dns64::wire::{CLASS_IN, NAME_LENGTH_MAX};
use engine::workload::type_number;

/// Reads `NAME TYPE`, as dnsperf does: blank lines and those that begin with `;` or `#` hold nothing. What
/// follows the type is ignored. Returns the question on the wire.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn question_of(line: &[u8]) -> Result<Option<Vec<u8>>, Cow<'static, str>> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(name) = words.next().filter(|word| !matches!(word[0], b';' | b'#')) else { return Ok(None) };
    let qtype =
        words.next().ok_or("a name without a query type: write for example 'www.example.com AAAA'")?;
    let qtype = std::str::from_utf8(qtype).ok().and_then(type_number).ok_or_else(|| {
        format!("'{}' is no query type", String::from_utf8_lossy(&qtype[..qtype.len().min(20)]))
    })?;
    let mut wire = name_of(name)?;
    wire.extend(qtype.to_be_bytes());
    wire.extend(CLASS_IN.to_be_bytes());
    Ok(Some(wire))
}

/// Reads `SECONDS NAME TYPE`, the type as a word or a number (`tshark -T fields`), and notes the time in ns;
/// it must not be before `time_ns`.
///
/// # Errors
/// What is wrong with the line.
pub fn timed(line: &[u8], time_ns: &mut u64) -> Result<Option<Vec<u8>>, Cow<'static, str>> {
    let line = line.trim_ascii();
    if line.is_empty() || matches!(line[0], b';' | b'#') {
        return Ok(None);
    }
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (time, rest) = line.split_at(end);
    let at_ns = nanoseconds(time)
        .ok_or("no time in seconds at its beginning: write for example '0.125 www.example.com AAAA'")?;
    if at_ns < *time_ns {
        return Err("its time is before that of an earlier line".into());
    }
    let mut words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let question = match (words.next(), words.next()) {
        (Some(name), Some(number)) if number.iter().all(u8::is_ascii_digit) => {
            question_of(&[name, b" TYPE", number].concat())
        }
        _ => question_of(rest),
    }?;
    *time_ns = at_ns;
    question.map(Some).ok_or_else(|| "a time without a name".into())
}

/// Seconds with up to nine decimals that count, in ns; none beyond a century.
fn nanoseconds(text: &[u8]) -> Option<u64> {
    const SECONDS_MAX: u64 = 100 * 366 * 86_400;
    let text = std::str::from_utf8(text).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let seconds: u64 = whole.parse().ok().filter(|&seconds| seconds <= SECONDS_MAX)?;
    let nine: String = decimals.chars().chain(std::iter::repeat('0')).take(9).collect();
    Some(seconds * 1_000_000_000 + nine.parse::<u64>().ok()?)
}

/// A name in master-file form, with `\.` and `\DDD` (RFC 1035 5.1), on the wire.
fn name_of(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const LABEL: &str = "a label must have 1 to 63 octets";
    if text == b"." {
        return Ok(vec![0]);
    }
    let (mut wire, mut start) = (vec![0], 0);
    let mut rest = text.iter().copied();
    while let Some(octet) = rest.next() {
        match octet {
            b'.' => {
                if wire.len() == start + 1 {
                    return Err(LABEL);
                }
                start = wire.len();
                wire.push(0);
                continue;
            }
            b'\\' => wire.push(
                escaped(&mut rest)
                    .ok_or("a backslash must be followed by a character or by three digits up to 255")?,
            ),
            _ => wire.push(octet),
        }
        wire[start] += 1;
        if wire[start] > 63 {
            return Err(LABEL);
        }
    }
    // Without a dot at its end the name lacks the root.
    if wire.len() > start + 1 {
        wire.push(0);
    }
    if wire.len() > NAME_LENGTH_MAX { Err("a name of over 255 octets") } else { Ok(wire) }
}

fn escaped(rest: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let first = rest.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    let digits = [first, rest.next()?, rest.next()?];
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::Name;
    use proptest::prelude::*;

    #[test]
    fn lines_of_every_kind() {
        let wire = |text: &str| question_of(text.as_bytes());
        assert_eq!(wire("a.b AAAA").unwrap().unwrap(), b"\x01a\x01b\x00\x00\x1c\x00\x01");
        assert_eq!(wire("  a.b.\taaaa  ignored \r").unwrap(), wire("a.b AAAA").unwrap());
        assert_eq!(wire(". ns").unwrap().unwrap(), b"\x00\x00\x02\x00\x01");
        assert_eq!(wire(r"a\.b\032c TYPE65").unwrap().unwrap(), b"\x05a.b c\x00\x00\x41\x00\x01");
        for nothing in ["", "   ", "; comment", "#comment A", "\r"] {
            assert_eq!(wire(nothing), Ok(None), "{nothing}");
        }
        for (line, reason) in [
            ("www.example.com", "without a query type"),
            ("www.example.com BOGUS", "'BOGUS' is no query type"),
            ("a..b A", "1 to 63"),
            (".a A", "1 to 63"),
            (&format!("{} A", "a".repeat(64)), "1 to 63"),
            (&format!("{} A", "a.".repeat(128)), "over 255"),
            (r"a\25 A", "backslash"),
            (r"a\256 A", "backslash"),
        ] {
            assert!(wire(line).unwrap_err().contains(reason), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in prop::collection::vec(prop_oneof![Just(b'.'), Just(b'\\'), Just(b' '), any::<u8>()], 0..300)) {
            if let Ok(Some(wire)) = question_of(&line) {
                let (name, end) = Name::parse(&wire, 0).unwrap();
                prop_assert_eq!(end + 4, wire.len());
                prop_assert!(name.as_wire().len() <= 255);
            }
        }
    }
}
