//! The tables of defects in docs/differences.md and docs/defects.md, and of promises in docs/guarantees.md, name tests
//! that exist.

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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of a document that begin like this, and name something.
fn rows_that_begin_with(document: &str, begins: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let is_row = |line: &&str| {
        let begins_so = begins.iter().any(|begin| line.starts_with(begin));
        begins_so && line.contains('`')
    };
    text.lines().filter(is_row).map(str::to_owned).collect()
}

/// The rows of those tables of a document whose last column is called `tests`.
fn rows_with_tests(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut rows = Vec::new();
    let mut has_tests = false;
    for line in text.lines() {
        if !line.starts_with('|') {
            has_tests = false;
        } else if line.ends_with("| tests |") {
            has_tests = true;
        } else if has_tests && !line.starts_with("|---") {
            rows.push(line.to_owned());
        }
    }
    rows
}

/// The rows name tests in their last column; there are this many rows at least.
fn name_tests_that_exist(rows: &[String], at_least: usize) {
    assert!(rows.len() >= at_least, "{} rows", rows.len());
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let code: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap();
        assert!(tests.contains('`'), "no test in {row}");
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
    name_tests_that_exist(&rows_that_begin_with("docs/differences.md", &["| A"]), 45);
}

#[test]
fn every_defect_that_was_cured_is_kept_out_by_a_test_that_exists() {
    name_tests_that_exist(&rows_with_tests("docs/defects.md"), 80);
}

#[test]
fn every_promise_is_held_by_a_test_that_exists() {
    name_tests_that_exist(&rows_with_tests("docs/guarantees.md"), 25);
}
