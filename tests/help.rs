//! What the programs say of themselves: help and manual pages, read here as a user reads them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/assets.rs"]
#[allow(dead_code, reason = "the main function of the example")]
mod assets;

use std::fs;

use clap::{Command, CommandFactory};

/// The help of a command and of everything below it, and the commands that have no example.
fn helps(command: &Command, path: &str, text: &mut String, without: &mut Vec<String>) {
    let path = if path.is_empty() {
        command.get_name().to_owned()
    } else {
        format!("{path} {}", command.get_name())
    };
    let help = command.clone().bin_name(&path).term_width(100).render_long_help().to_string();
    *text += &format!("$ {path} --help\n{}\n\n", help.trim_end());
    let below: Vec<&Command> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    if below.is_empty() && !help.contains("Example") {
        without.push(path.clone());
    }
    for below in below {
        helps(below, &path, text, without);
    }
}

/// Those of which no help shows an example; it may stand with the command above.
fn untaught(without: &[String], text: &str) -> Vec<String> {
    // Options may stand before the last word.
    let shown = |path: &&String| {
        let (above, last) = path.rsplit_once(' ').unwrap_or(("", path));
        let mut lines = text.lines().map(str::trim_start).filter(|line| line.starts_with(above));
        lines.any(|line| line.split(' ').any(|word| word == last))
    };
    without.iter().filter(|path| !shown(path)).cloned().collect()
}

#[test]
fn every_help_reads_well_and_teaches_by_examples() {
    for command in [cli::Cli::command(), daemon::command()] {
        let name = command.get_name().to_owned();
        let (mut text, mut without) = (String::new(), Vec::new());
        helps(&command.disable_help_subcommand(true), "", &mut text, &mut without);
        assert_eq!(untaught(&without, &text), Vec::<String>::new(), "no help shows an example of them");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(120), "a line of {widest:?} characters");
        insta::assert_snapshot!(format!("help_{name}"), text);
    }
}

#[test]
fn the_manual_pages_are_made_of_the_same() {
    let directory = tempfile::tempdir().unwrap();
    assets::write_all(directory.path()).unwrap();
    let manual = directory.path().join("man");
    let mut pages: Vec<_> = fs::read_dir(&manual).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    for program in ["sextant", "dns64d"] {
        let of_program =
            pages.iter().filter(|page| page.file_name().unwrap().to_string_lossy().starts_with(program));
        let text: Vec<String> = of_program
            .map(|page| {
                let name = page.file_name().unwrap().to_string_lossy();
                format!(".\\\" {name}\n{}", fs::read_to_string(page).unwrap())
            })
            .collect();
        assert!(!text.is_empty());
        insta::assert_snapshot!(format!("man_{program}"), text.join("\n"));
    }
}
