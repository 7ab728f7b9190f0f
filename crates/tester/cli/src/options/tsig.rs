//! `--tsig`: files with a key, as `tsig-keygen` writes them and BIND, Knot's and NSD's tools read them.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use dns64::wire::Name;
use domain::utils::base64;
use engine::tsig::{Algorithm, Key};

/// The longest file of a key.
const FILE_OCTETS_MAX: u64 = 64 << 10;

/// Reads the file of a key. The secret stays out of command lines and records.
pub(super) fn key(path: &str) -> Result<Arc<Key>, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_OCTETS_MAX).read_to_string(&mut text))
        .map_err(|error| format!("cannot read a key from {path}: {error}"))?;
    let (name, algorithm, secret) = parse(&text).map_err(|why| format!("{path}: {why}"))?;
    let unix_offset_ns = sys::clock::realtime_ns().wrapping_sub(sys::clock::monotonic_ns());
    Ok(Arc::new(Key::new(&name, algorithm, &secret, unix_offset_ns)))
}

/// Reads `key "NAME" { algorithm NAME; secret "BASE64"; };`, with comments in lines of
/// their own.
fn parse(text: &str) -> Result<(Name, Algorithm, Vec<u8>), String> {
    const FORM: &str =
        "no key as tsig-keygen writes it: key \"NAME\" { algorithm hmac-sha256; secret \"BASE64\"; };";
    let is_comment = |line: &&str| ["#", "//"].iter().any(|mark| line.trim_start().starts_with(mark));
    let text = text.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join(" ");
    let (head, body) = text.split_once('{').ok_or(FORM)?;
    let name = unquoted(head.trim().strip_prefix("key").ok_or(FORM)?);
    let (body, _) = body.split_once('}').ok_or(FORM)?;
    let value = |wanted: &str| {
        let mut statements = body.split(';').filter_map(|text| text.trim().split_once(char::is_whitespace));
        statements.find(|(word, _)| *word == wanted).map(|(_, value)| unquoted(value))
    };
    let (algorithm, secret) = value("algorithm").zip(value("secret")).ok_or(FORM)?;
    let is_named = |known: &&Algorithm| algorithm.trim_end_matches('.').eq_ignore_ascii_case(known.name());
    let found = Algorithm::ALL.iter().find(is_named).copied();
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    let algorithm = found.ok_or_else(|| format!("algorithm '{algorithm}' is not one of {}", known()))?;
    let name = Name::from_text(name).map_err(|error| format!("the key's name '{name}': {}", error.0))?;
    let secret: Vec<u8> = base64::decode(secret).map_err(|_| "the secret is not in base 64".to_owned())?;
    if secret.is_empty() { Err("the secret is empty".into()) } else { Ok((name, algorithm, secret)) }
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_read_as_tsig_keygen_writes_them() {
        let text = "# made today\nkey \"tester.example\" {\n\talgorithm hmac-sha512;\n\tsecret \"c2VjcmV0Ly8=\";\n};\n";
        let (name, algorithm, secret) = parse(text).unwrap();
        assert_eq!((name.to_string().as_str(), algorithm), ("tester.example.", Algorithm::Sha512));
        assert_eq!(secret, b"secret//");
        assert!(parse("key x { secret c2VjcmV0; algorithm HMAC-SHA256.; };").is_ok());
    }

    #[test]
    fn wrong_keys_say_what_is_wrong() {
        for (text, reason) in [
            ("", "no key as tsig-keygen writes it"),
            ("key x { algorithm hmac-sha256; };", "no key as"),
            ("key x { algorithm hmac-md5; secret x; };", "'hmac-md5' is not one of hmac-sha256"),
            ("key x { algorithm hmac-sha256; secret \"%\"; };", "not in base 64"),
            ("key x { algorithm hmac-sha256; secret \"\"; };", "the secret is empty"),
            ("key a..b { algorithm hmac-sha256; secret c2VjcmV0; };", "the key's name 'a..b'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(key("/nonexistent").unwrap_err().contains("cannot read a key from /nonexistent"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(key|[{};\"#/]|secret |algorithm |hmac-sha256|[a-z]){0,30}") {
            let _ = parse(&text);
        }
    }
}
