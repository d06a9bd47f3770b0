//! The list of cases in `docs/provider-cases.md`: written from the registry and the cases' own words, and checked.
//!
//! `CASE_LIST=write cargo test -p duroxide-validation --test it documents` writes it again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use duroxide_validation::{Case, cases};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// What each case says about itself, by module and function.
fn sentences() -> HashMap<(String, String), String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cases");
    let mut found = HashMap::new();
    collect(&root, None, &mut found);
    found
}

fn collect(folder: &Path, module: Option<&str>, found: &mut HashMap<(String, String), String>) {
    for entry in std::fs::read_dir(folder).expect("the cases are beside the tests") {
        let path = entry.expect("a folder can be listed").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.expect("sources have plain names").to_owned();
        let module = module.unwrap_or(&stem);
        if path.is_dir() {
            collect(&path, Some(module), found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source is text");
        for (name, sentence) in documented(&text) {
            found.insert((module.to_owned(), name), sentence);
        }
    }
}

/// Public functions of a file with the first paragraph of their documentation, as one line.
fn documented(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut documentation: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(doc) = line.strip_prefix("///") {
            documentation.push(doc.trim());
        } else if let Some(rest) = line.strip_prefix("pub async fn ") {
            let name = rest.split(['<', '(']).next().unwrap_or(rest);
            let paragraph = documentation.split(|line| line.is_empty()).next();
            found.push((name.to_owned(), paragraph.unwrap_or_default().join(" ")));
            documentation.clear();
        } else {
            documentation.clear();
        }
    }
    found
}

fn row(case: &Case, sentences: &HashMap<(String, String), String>) -> String {
    let sentence = &sentences[&(case.module.to_owned(), case.name.to_owned())];
    let needs: Vec<String> = case
        .requires
        .iter()
        .map(|need| format!("{need:?}"))
        .collect();
    let sentence = sentence.replace('|', "\\|");
    format!("| `{}` | {sentence} | {} |", case.name, needs.join(", "))
}

fn render() -> String {
    let (all, sentences) = (cases(), sentences());
    let mut text = format!(
        "# The cases of the conformance kit\n\n\
         {} cases. \"Needs\" names what a store or a factory may lack; such a case is then skipped aloud. Written by\n\
         `CASE_LIST=write cargo test -p duroxide-validation --test it documents`.\n",
        all.len()
    );
    for group in all.chunk_by(|a, b| a.module == b.module) {
        let heading = group[0].module;
        let _ = write!(
            text,
            "\n## {heading} ({})\n\n| case | behaviour | needs |\n|---|---|---|\n",
            group.len()
        );
        for case in group {
            let _ = writeln!(text, "{}", row(case, &sentences));
        }
    }
    text
}

#[test]
fn the_list_of_cases_is_up_to_date() {
    let document = docs().join("provider-cases.md");
    if std::env::var_os("CASE_LIST").is_some() {
        std::fs::write(&document, render()).unwrap();
    }
    let text = std::fs::read_to_string(document).unwrap();
    assert_eq!(text, render(), "write the list again");
}

#[test]
fn every_group_is_explained() {
    let text = std::fs::read_to_string(docs().join("provider-testing.md")).unwrap();
    for case in cases() {
        let group = format!("`{}`", case.module);
        assert!(text.contains(&group), "{group} is explained nowhere");
    }
}

#[test]
fn every_case_has_a_name_of_its_own_and_a_sentence() {
    let sentences = sentences();
    let mut seen = std::collections::HashSet::new();
    for case in cases() {
        assert!(seen.insert(case.name), "{} is listed twice", case.name);
        let key = (case.module.to_owned(), case.name.to_owned());
        assert!(
            !sentences[&key].is_empty(),
            "{} has a sentence",
            case.path()
        );
    }
    assert_eq!(seen.len(), sentences.len(), "every public case is listed");
}
