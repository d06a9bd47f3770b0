//! The tables of defects in docs/differences.md and docs/defects.md, and of promises in docs/guarantees.md, name tests that exist.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The rows of a document that begin like this name tests in their last column; there are this many at least.
fn names_tests_that_exist(document: &str, begins: &[&str], at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(document)).unwrap();
    let is_row = |line: &&str| {
        let begins_so = begins.iter().any(|begin| line.starts_with(begin));
        begins_so && line.contains('`')
    };
    let rows: Vec<&str> = text.lines().filter(is_row).collect();
    assert!(rows.len() >= at_least, "{} rows", rows.len());
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let code: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap();
        for name in tests.split('`').filter(|part| part.contains('_')) {
            // Cases of the conformance kit are generic.
            let exists =
                code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<"));
            assert!(exists, "{name} of {row}");
        }
    }
}

#[test]
fn every_defect_of_the_published_crate_is_kept_out_by_a_test_that_exists() {
    names_tests_that_exist("docs/differences.md", &["| A"], 45);
}

#[test]
fn every_defect_that_a_review_found_is_kept_out_by_a_test_that_exists() {
    names_tests_that_exist(
        "docs/defects.md",
        &["| E ", "| S ", "| K ", "| N ", "| M "],
        80,
    );
}

#[test]
fn every_promise_is_held_by_a_test_that_exists() {
    names_tests_that_exist("docs/guarantees.md", &["| G "], 25);
}
