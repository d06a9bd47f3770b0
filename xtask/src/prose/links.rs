//! Links between pages, and names of files in them. In: pages. Out: those that lead to no file or no heading.
//! Never looks at addresses on the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::lines::{Kind, kinds};
use crate::files::text;

/// A line for each link that does not resolve.
pub(super) fn broken(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut anchors: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for page in pages {
        let words = text(&root.join(page))?;
        let gone = named(&words)
            .into_iter()
            .filter(|file| !root.join(file).exists());
        wrong.extend(gone.map(|file| format!("{}: `{file}` is not there", page.display())));
        for link in links(&words) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let here = root.join(page);
            let target = match file {
                "" => here,
                file => here.parent().unwrap_or(root).join(file),
            };
            if !target.exists() {
                wrong.push(format!("{}: {link} is not there", page.display()));
            } else if !anchor.is_empty() && target.extension().is_some_and(|e| e == "md") {
                if !anchors.contains_key(&target) {
                    anchors.insert(target.clone(), headings(&text(&target)?));
                }
                if !anchors[&target].contains(anchor) {
                    wrong.push(format!(
                        "{}: {link}: there is no such heading",
                        page.display()
                    ));
                }
            }
        }
    }
    Ok(wrong)
}

/// Where the links of a page lead.
fn links(page: &str) -> Vec<String> {
    let prose: Vec<&str> = kinds(page)
        .filter(|(_, kind)| *kind != Kind::Code)
        .map(|(line, _)| line)
        .collect();
    let prose = without_code(&prose.join("\n"));
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or("").to_owned())
        .collect()
}

/// The text without what is between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// Files of the repository that a page names between backticks, by their path from the root. Words in capitals stand
/// for something.
fn named(page: &str) -> Vec<String> {
    let prose = kinds(page).filter(|(_, kind)| *kind != Kind::Code);
    let spans = prose.flat_map(|(line, _)| line.split('`').skip(1).step_by(2));
    spans
        .filter(|span| {
            ["crates/", "docs/", "xtask/"]
                .iter()
                .any(|start| span.starts_with(start))
        })
        .filter(|span| !span.contains([' ', '*', '{', '…', ':']))
        .filter(|span| !span.split(['/', '-']).any(|part| part == "NAME"))
        .map(str::to_owned)
        .collect()
}

/// The anchors of a page's headings, made as forges make them.
fn headings(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (line, _) in kinds(page).filter(|(_, kind)| *kind == Kind::Heading) {
        let title = line.trim().trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone())
            .chain(again)
            .find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_no_links() {
        let page =
            "see [a\nb](x.md#y) and [`c`](z.md), not `[d](e)`\n```\n[f](g)\n```\n![h](i.svg)\n";
        assert_eq!(links(page), ["x.md#y", "z.md", "i.svg"]);
    }

    #[test]
    fn files_between_backticks_are_named_from_the_root() {
        let page =
            "`crates/a/b.rs`, `src/c.rs`, `crates/x-NAME/d`, `docs/`\n```\n`docs/e.md`\n```\n";
        assert_eq!(named(page), ["crates/a/b.rs", "docs/"]);
    }

    #[test]
    fn headings_become_anchors_as_on_a_forge() {
        let page = "# Two kinds of code\n## What `it` is, and isn't\n## Twice\n## Twice\n```\n# not one\n```\n";
        let expected = [
            "two-kinds-of-code",
            "what-it-is-and-isnt",
            "twice",
            "twice-1",
        ];
        assert_eq!(headings(page), expected.map(str::to_owned).into());
    }
}
