//! What is published. In: the manifests and sources of the crates. Out: pass, or what a stranger's build would miss.

use std::path::Path;

use crate::files::{below, folders, root, text};
use crate::manifest::{keys, words};
use crate::run::{cargo, cargo_output};

/// What a package page shows and a licence asks for.
const METADATA: [&str; 5] = [
    "description",
    "keywords",
    "categories",
    "documentation",
    "readme.workspace",
];
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// A crate of this repository.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The text of its `Cargo.toml`.
    pub(crate) manifest: String,
}

impl Package {
    fn is_published(&self) -> bool {
        let keys = keys(&self.manifest, "package");
        !keys.iter().any(|key| key == "publish")
    }
}

/// The packages in the folders of a folder.
pub(crate) fn packages(root: &Path, parent: &str) -> Result<Vec<Package>, String> {
    let package = |folder: &Path| {
        let manifest = text(&folder.join("Cargo.toml"))?;
        let name = words(&manifest, "package", "name").pop();
        let name = name.ok_or_else(|| format!("{} has no name", folder.display()))?;
        Ok(Package { name, manifest })
    };
    let folders = folders(root, parent)?;
    folders.iter().map(|folder| package(folder)).collect()
}

/// The crates that may be published.
pub(crate) fn published(root: &Path) -> Result<Vec<Package>, String> {
    let mut all = packages(root, "crates")?;
    all.retain(Package::is_published);
    Ok(all)
}

/// Every crate that may be published packs, with its licences and metadata, and needs no file outside its folder.
pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let mut chosen = Vec::new();
    for Package { name, manifest } in published(&root)? {
        metadata(&name, &manifest)?;
        contents(&name)?;
        inclusions(&root, &name)?;
        chosen.extend(["--package".to_owned(), name]);
    }
    let names: Vec<&str> = chosen.iter().map(String::as_str).collect();
    cargo(
        &[
            &["package", "--no-verify", "--allow-dirty", "--quiet"],
            &names[..],
        ]
        .concat(),
    )
}

fn metadata(name: &str, manifest: &str) -> Result<(), String> {
    let there = keys(manifest, "package");
    match METADATA.iter().find(|key| !there.iter().any(|k| k == *key)) {
        Some(key) => Err(format!("{name}: Cargo.toml has no `{key}`")),
        None => Ok(()),
    }
}

fn contents(name: &str) -> Result<(), String> {
    let list = cargo_output(&["package", "--list", "--allow-dirty", "--package", name])?;
    match LICENCES
        .iter()
        .find(|licence| !list.lines().any(|file| file == **licence))
    {
        Some(licence) => Err(format!(
            "{name}: the package has no {licence}; link it from the root"
        )),
        None => Ok(()),
    }
}

/// A text that is included from outside the crate is not in the package. Doctests alone may do that: no user builds
/// them.
fn inclusions(root: &Path, name: &str) -> Result<(), String> {
    for file in below(root, &format!("crates/{name}/src"), ".rs")? {
        // Below `crates/NAME/src/` a file needs as many steps to leave the crate as it has folders above it, less two.
        let depth = file.components().count() - 3;
        let source = text(&root.join(&file))?;
        if let Some(line) = escaping(&source, depth) {
            return Err(format!(
                "{}:{line}: includes a file outside its crate",
                file.display()
            ));
        }
    }
    Ok(())
}

/// The line of the first `include_str!` or `include_bytes!` that climbs further than `depth`, outside doctests.
fn escaping(source: &str, depth: usize) -> Option<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let climbs = |line: &&str| line.contains("include_") && line.matches("../").count() > depth;
    let place = lines.iter().enumerate().find(|(place, line)| {
        let before = lines[..*place].iter().rev();
        let mut attributes = before.take_while(|line| line.trim_start().starts_with("#["));
        climbs(line) && !attributes.any(|line| line.contains("doctest"))
    });
    place.map(|(place, _)| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_the_crate_is_found() {
        let source = "//! room\n#![doc = include_str!(\"../../../docs/x.md\")]\n";
        assert_eq!(escaping(source, 1), Some(2));
        assert_eq!(
            escaping("const X: &str = include_str!(\"../migrations/1.sql\");", 1),
            None
        );
    }

    #[test]
    fn doctests_may_include_the_pages_of_the_repository() {
        let source = "#[cfg(all(doctest, feature = \"sqlite\"))]\n#[doc = include_str!(\"../../../README.md\")]\npub mod readme {}\n";
        assert_eq!(escaping(source, 1), None);
    }

    #[test]
    fn a_crate_without_a_description_does_not_pass() {
        let manifest = "[package]\nname = \"a\"\nkeywords = []\n";
        assert!(metadata("a", manifest).unwrap_err().contains("description"));
    }
}
