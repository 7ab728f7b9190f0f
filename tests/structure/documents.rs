//! The places that the documents name exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::ROOT;

/// The Markdown files of the root and of `docs/`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let folders =
        [root.to_owned(), root.join("docs"), root.join("docs/decisions"), root.join("docs/performance")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The words in backticks that begin with the name of a folder of the tree.
fn places(text: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 5] = ["crates/", "tests/", "benches/", "fuzz/", "docs/"];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

#[test]
fn every_place_that_a_document_names_exists() {
    let mut found = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        // Blocks of code hold commands, whose outputs need not exist.
        let prose: String = text.split("```").step_by(2).collect();
        for place in places(&prose).filter(|place| !place.contains(['*', '<', ' ', '{', '$'])) {
            found += 1;
            assert!(Path::new(ROOT).join(place).exists(), "{}: {place}", document.display());
        }
    }
    assert!(found > 20, "{found} places");
}
