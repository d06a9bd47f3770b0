//! The pages of the repository and the comments of its code. In: markdown and Rust files. Out: pass, or links that lead
//! nowhere and lines that are too long; and `cargo xtask wrap`, which breaks long lines.

mod comments;
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
    for file in pages.into_iter().chain(code(&root)?) {
        let text = text(&root.join(&file))?;
        let long = if is_code(&file) {
            comments::too_long(&text, COLUMNS)
        } else {
            lines::too_long(&text, COLUMNS)
        };
        let file = file.display();
        wrong.extend(long.iter().map(|line| {
            format!("{file}:{line}: longer than {COLUMNS} columns; `cargo xtask wrap` breaks it")
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
    for file in pages(&root)?.into_iter().chain(code(&root)?) {
        let path = root.join(&file);
        let before = text(&path)?;
        let after = if is_code(&file) {
            comments::wrapped(&before, COLUMNS)
        } else {
            wrap::wrapped(&before, COLUMNS)
        };
        if after != before {
            fs::write(&path, after).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

/// The code of the crates, the examples and the tools.
fn code(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut code = Vec::new();
    for folder in ["crates", "examples", "xtask"] {
        code.extend(below(root, folder, ".rs")?);
    }
    code.sort();
    Ok(code)
}

fn is_code(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "rs")
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
