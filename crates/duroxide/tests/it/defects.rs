//! The table of defects in docs/differences.md names tests that exist.

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

#[test]
fn every_defect_of_the_published_crate_is_kept_out_by_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/differences.md")).unwrap();
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| A") && line.contains('`'))
        .collect();
    assert!(rows.len() >= 45, "{} rows", rows.len());
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let code: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap();
        for name in tests.split('`').filter(|part| part.contains('_')) {
            assert!(code.contains(&format!("fn {name}(")), "{name} of {row}");
        }
    }
}
