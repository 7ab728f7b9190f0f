//! The top-level modules of a crate and what they take from each other, read from the paths in their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which top-level module takes something from which.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Every pair of top-level modules of which each can be reached from the other, with the way there and back.
pub fn circles(src: &Path, files: &[PathBuf]) -> Vec<String> {
    let graph = graph(src, files);
    let mut found = Vec::new();
    for (module, needs) in &graph {
        for needed in needs.iter().filter(|needed| *needed > module || !graph.contains_key(*needed)) {
            if let Some(back) = way(&graph, needed, module) {
                found.push(format!("{module} -> {}", back.join(" -> ")));
            }
        }
        for needed in needs.iter().filter(|needed| *needed < module) {
            if let Some(back) = way(&graph, needed, module).filter(|back| back.len() > 2) {
                found.push(format!("{module} -> {}", back.join(" -> ")));
            }
        }
    }
    found
}

/// A shortest way from one module to another.
fn way(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last()?;
            if last == to {
                return Some(way);
            }
            for next in graph.get(last).into_iter().flatten().filter(|next| seen.insert((*next).clone())) {
                longer.push(way.iter().cloned().chain([next.clone()]).collect());
            }
        }
        ways = longer;
    }
    None
}

fn graph(src: &Path, files: &[PathBuf]) -> Graph {
    let lib = without_comments(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let modules: BTreeSet<String> = lib.lines().filter_map(declared).map(str::to_owned).collect();
    let handed_on = handed_on(&lib);
    let mut graph = Graph::new();
    for file in files {
        let inside = file.strip_prefix(src).unwrap();
        let parts: Vec<String> =
            inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let Some(own) = parts.first().filter(|own| modules.contains(*own)) else { continue };
        let is_face = parts.last().is_some_and(|last| last == "mod");
        let depth = parts.len() - usize::from(is_face);
        let text = without_comments(&fs::read_to_string(file).unwrap());
        // A module of tests stands last, but `mod tests;` stands among the declarations.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in names_from_root(code, depth) {
            let module = modules.get(&name).or_else(|| handed_on.get(&name)).filter(|module| *module != own);
            graph.entry(own.clone()).or_default().extend(module.cloned());
        }
    }
    graph
}

/// The module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let words = line.strip_suffix(';')?;
    words.strip_prefix("pub ").unwrap_or(words).strip_prefix("mod ")
}

/// Names that the crate's root hands on (`pub use module::name`), and their modules.
fn handed_on(lib: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in lib.split(';') {
        let Some((_, path)) = item.rsplit_once("pub use ") else { continue };
        if let Some((module, rest)) = path.split_once("::") {
            names.extend(words(rest).map(|name| (name.to_owned(), module.to_owned())));
        }
    }
    names
}

/// The first names of all paths that begin at the crate's root: after `crate::`, or after as many `super::`
/// as lead there.
fn names_from_root(code: &str, depth: usize) -> Vec<String> {
    let above = "super::".repeat(depth);
    let mut names = Vec::new();
    for start in ["crate::", above.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            if before.ends_with("::") || before.ends_with(|last: char| last.is_alphanumeric() || last == '_')
            {
                continue;
            }
            names.extend(first_names(&code[at + start.len()..]));
        }
    }
    names
}

/// The first name of a path, or those of the list that stands there.
fn first_names(path: &str) -> Vec<String> {
    let Some(list) = path.strip_prefix('{') else {
        return words(path).next().filter(|name| *name != "super").map(str::to_owned).into_iter().collect();
    };
    let mut depth = 0usize;
    let mut fresh = true;
    let mut names = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && depth == 0 && letter.is_alphabetic() => {
                fresh = false;
                names.extend(words(&list[at..]).next().map(str::to_owned));
            }
            _ => {}
        }
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn paths_are_read_from_the_root_alone() {
    let code = "use crate::{a::X, b::{Y, c}, d};\nuse super::e::Z;\nuse super::super::f;\nfn x() { crate::g::h(); other::crate_::i(); }";
    let mut names = names_from_root(code, 1);
    names.sort();
    assert_eq!(names, ["a", "b", "d", "e", "g"]);
    assert_eq!(names_from_root("use super::super::f::Q;", 2), ["f"]);
}
