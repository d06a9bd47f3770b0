//! The files of the checkout. In: the place of this package. Out: paths relative to the root, in a fixed order, and
//! their texts.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what was built or downloaded.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf, String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("run this through cargo: `cargo xtask …`; CARGO_MANIFEST_DIR is not set")?;
    let package = PathBuf::from(package);
    let root = package.parent().map(Path::to_path_buf);
    root.ok_or_else(|| format!("{} has no parent", package.display()))
}

/// The files below a folder of the repository whose names end like this.
pub(crate) fn below(root: &Path, folder: &str, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    collect(&root.join(folder), ending, &mut found)?;
    found.sort();
    let relative = |path: PathBuf| path.strip_prefix(root).map(Path::to_path_buf);
    found
        .into_iter()
        .map(|path| relative(path).map_err(|e| e.to_string()))
        .collect()
}

/// The folders directly below a folder of the repository.
pub(crate) fn folders(root: &Path, folder: &str) -> Result<Vec<PathBuf>, String> {
    let mut found: Vec<PathBuf> = entries(&root.join(folder))?
        .into_iter()
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    Ok(found)
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_ref()) {
                collect(&path, ending, found)?;
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |e| format!("{}: {e}", folder.display());
    fs::read_dir(folder)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(unreadable))
        .collect()
}
