//! The pages of the repository. In: its markdown files. Out: pass, or links that lead nowhere and lines that are too long; and
//! `cargo xtask wrap`, which breaks long lines.

mod lines;
mod links;
mod wrap;

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{below, root, text};

/// The longest line of prose.
const COLUMNS: usize = 120;

/// Every link resolves, and no line of prose is too long.
pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let pages = pages(&root)?;
    println!("   {} pages", pages.len());
    let mut wrong = links::broken(&root, &pages)?;
    for page in &pages {
        let long = lines::too_long(&text(&root.join(page))?, COLUMNS);
        let page = page.display();
        wrong.extend(long.iter().map(|line| {
            format!("{page}:{line}: longer than {COLUMNS} columns; `cargo xtask wrap` breaks it")
        }));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Breaks the paragraphs that have a line that is too long.
pub(crate) fn wrap() -> Result<(), String> {
    let root = root()?;
    for page in pages(&root)? {
        let path = root.join(&page);
        let before = text(&path)?;
        let after = wrap::wrapped(&before, COLUMNS);
        if after != before {
            fs::write(&path, after).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("{}", page.display());
        }
    }
    Ok(())
}

/// The pages at the root, for the forge, and in `docs`.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> = below(root, "docs", ".md")?;
    pages.extend(below(root, ".github", ".md")?);
    let at_root = fs::read_dir(root).map_err(|e| e.to_string())?;
    for entry in at_root {
        let name = PathBuf::from(entry.map_err(|e| e.to_string())?.file_name());
        if name.extension().is_some_and(|ending| ending == "md") {
            pages.push(name);
        }
    }
    pages.sort();
    Ok(pages)
}
