//! The documents say what the program does.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;
use crate::config::documents::meaning;
use crate::config::keys::{Kind, NEEDED, TABLES, Table, alternatives};

const START: &str = "<!-- keys -->\n";
const END: &str = "<!-- end of keys -->\n";

/// Compares a file with what it should be; `RENEW_DOCUMENTS=1` writes it.
fn compare(file: &str, expected: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
    let present = std::fs::read_to_string(&path).unwrap();
    let expected = expected(&present);
    if std::env::var_os("RENEW_DOCUMENTS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(present == expected, "{file} is old: RENEW_DOCUMENTS=1 cargo test -p dns64d-daemon config");
    }
}

/// The keys as tables of Markdown.
fn table() -> String {
    let mut out = String::new();
    for table in TABLES {
        if !table.heading.is_empty() {
            let _ = write!(out, "\n### `{}`\n\n", table.heading);
        }
        let _ = write!(out, "{}\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n", table.meaning);
        for key in table.keys {
            let (value, meaning) = (cell(&key.takes()), cell(&meaning(key)));
            let default = match key.otherwise {
                "" => format!("`{}`", cell(&table.default(key))),
                words => cell(words),
            };
            let _ = writeln!(out, "| `{}` | {value} | {default} | {meaning} |", key.name);
        }
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_example_file_has_every_key() {
    compare("dist/dns64d.toml", |_| sample());
}

#[test]
fn the_guide_has_every_key() {
    compare("docs/dns64d.md", |present| {
        let (before, rest) = present.split_once(START).expect("the mark before the keys");
        let (_, after) = rest.split_once(END).expect("the mark behind the keys");
        format!("{before}{START}\n{}\n{END}{after}", table())
    });
}

#[test]
fn the_example_file_is_good_as_it_is() {
    let config = parse(&sample());
    assert_eq!(config.warnings, [""; 0]);
    assert_eq!(addresses(&config), ["192.0.2.1:53", "[2001:db8::53]:53"]);
}

#[test]
fn every_example_is_good() {
    let home = Home::new();
    let text: String = sample()
        .lines()
        .filter(|line| cfg!(feature = "validation") || !line.starts_with("#anchors"))
        .map(|line| {
            let line = line.replace("/etc/dns64d/roots", "certificate").replace("/etc/dns64d/", "");
            let code = line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(&line);
            format!("{code}\n")
        })
        .collect();
    let text = text.replace("\"192.0.2.1\", ", "\"192.0.2.1\", \"tls://192.0.2.2#dns.example\", ");
    let text = text.replace("validate = false", &format!("validate = {}", cfg!(feature = "validation")));
    let config =
        home.read(&text.replace("[\"[::]:53\", \"0.", "[\"[::]:53\", \"tls://[::]\", \"0.")).unwrap();
    assert_eq!(config.warnings, [""; 0]);
    assert_eq!((config.settings.views.len(), config.settings.groups.len()), (2, 2));
    assert!(config.settings.rate.is_some() && config.dnstap.is_some() && config.tls.is_some());
}

/// Whether a table does nothing by itself, so that it can stand in any file.
fn is_idle(table: &Table) -> bool {
    table.heading.is_empty() || table.keys.iter().all(|key| key.otherwise != NEEDED)
}

#[test]
fn the_defaults_are_those_of_the_program() {
    let smallest = "upstreams = ['192.0.2.1']\n";
    let mut text = smallest.to_owned();
    for table in TABLES.iter().filter(|table| is_idle(table)) {
        text += &format!("{}\n", table.heading);
        for key in table.keys.iter().filter(|key| key.otherwise.is_empty()) {
            text += &format!("{} = {}\n", key.name, table.default(key));
        }
    }
    assert_eq!(format!("{:?}", parse(&text)), format!("{:?}", parse(smallest)));
}

#[test]
fn every_declared_key_and_no_other_is_known() {
    for table in TABLES {
        for key in table.keys.iter().chain(table.base.into_iter().flat_map(|base| base.keys)) {
            let text = format!("{}\n{} = {}", table.heading, key.name, table.example(key));
            let error = Config::parse(&text, "f").err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("no such key") && !error.contains("invalid type"), "{error}");
        }
        let error = error(&format!("{}\nzzz = 1", table.heading));
        let known: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, table.names(), "{error}");
    }
}

#[test]
fn the_words_of_choices_are_those_that_are_read() {
    for table in TABLES {
        for key in table.keys {
            let Kind::Choice(words) = key.kind else { continue };
            let with =
                |word: &str| format!("upstreams = ['192.0.2.1']\n{}\n{} = '{word}'", table.heading, key.name);
            for word in words {
                parse(&with(word));
            }
            let error = error(&with("zzz"));
            assert!(error.ends_with(&format!("choose {}", alternatives(words, ""))), "{error}");
        }
    }
}

#[test]
fn the_manual_page_is_good_roff() {
    let manual = manual();
    for table in TABLES {
        for key in table.keys {
            assert!(manual.contains(&format!("\n.B {}\n", key.name)), "{}", key.name);
        }
    }
    if !testing::has_program("groff", "groff-base") {
        return;
    }
    let groff = Command::new("groff")
        .args(["-man", "-ww", "-Tutf8", "-P-cbou"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut groff = groff.unwrap();
    std::io::Write::write_all(&mut groff.stdin.take().unwrap(), manual.as_bytes()).unwrap();
    let output = groff.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let page = String::from_utf8(output.stdout).unwrap();
    for words in ["DNS64D.TOML(5)", "[[view]]", "Default: [\"::ffff:0:0/96\"].", "64:ff9b::/96"] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}
