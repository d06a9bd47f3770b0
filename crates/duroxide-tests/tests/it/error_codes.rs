//! Every error code has its section in docs/errors.md, and every section its code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The code in a literal such as `"D0101"`.
fn code(literal: &str) -> Option<&str> {
    let digits = literal.strip_prefix('D')?;
    let is_code = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_code.then_some(literal)
}

/// The codes of the sources, each with the lines that give it. Examples in comments give none.
fn given_codes(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    let mut given: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in lines {
            for found in line.split('"').filter_map(code) {
                let place = format!("{}: {}", file.display(), line.trim());
                given.entry(found.to_owned()).or_default().push(place);
            }
        }
    }
    given
}

#[test]
fn every_error_code_is_given_once_and_explained_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let explained: Vec<&str> = headings
        .filter_map(|title| title.split(':').next())
        .collect();
    let unique: BTreeSet<&str> = explained.iter().copied().collect();
    assert_eq!(explained.len(), unique.len(), "a code is explained twice");
    let given = given_codes(&root);
    for (code, places) in &given {
        assert_eq!(
            places.len(),
            1,
            "{code} has more than one meaning: {places:#?}"
        );
    }
    let given: BTreeSet<&str> = given.keys().map(String::as_str).collect();
    assert_eq!(given, unique);
}
