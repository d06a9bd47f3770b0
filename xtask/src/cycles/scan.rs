//! Who mentions whom. In: the sources of one crate. Out: for each mention of a sibling, the folder, both modules and
//! the place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::{code, paths, test_modules};
use crate::files::{below, text};

/// A module by its path from the crate's root; the root itself is empty.
type Module = Vec<String>;

/// A module that mentions a sibling.
pub(super) struct Mention {
    /// The module that both are in.
    pub(super) folder: Module,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) place: String,
}

/// The modules of a crate.
pub(super) struct Crate {
    modules: BTreeMap<Module, File>,
}

struct File {
    path: String,
    code: String,
    /// What `use` binds in this module, by name.
    imports: BTreeMap<String, Vec<String>>,
    /// The modules whose every name is bound here.
    globs: Vec<Vec<String>>,
}

impl Crate {
    pub(super) fn read(root: &Path, package: &Path) -> Result<Self, String> {
        let src = package.join("src");
        let mut modules = BTreeMap::new();
        let mut of_tests: Vec<Module> = Vec::new();
        for path in below(root, &src.display().to_string(), ".rs")? {
            let inside = path.strip_prefix(&src).map_err(|e| e.to_string())?;
            let module = module(inside);
            let text = text(&root.join(&path))?;
            let tests = test_modules(&text).into_iter();
            of_tests.extend(tests.map(|name| [&module[..], &[name]].concat()));
            modules.insert(module, File::new(path.display().to_string(), code(&text)));
        }
        modules.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));
        Ok(Self { modules })
    }

    /// Every mention of a sibling, of one's own or of an ancestor.
    pub(super) fn mentions(&self) -> Vec<Mention> {
        let mut found = Vec::new();
        for (module, file) in &self.modules {
            for (line, path) in paths(&file.code, &["crate", "super", "self"]) {
                let target = self.resolve(module, &path, &mut BTreeSet::new());
                let shared = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    found.push(Mention {
                        folder: module[..shared].to_vec(),
                        from: from.clone(),
                        to: to.clone(),
                        place: format!("{}:{line}", file.path),
                    });
                }
            }
        }
        found
    }

    /// The module that holds what a path names, through the names that modules pass on.
    fn resolve(
        &self,
        from: &Module,
        path: &[String],
        seen: &mut BTreeSet<(Module, String)>,
    ) -> Module {
        let mut here = from.clone();
        for (place, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" if place == 0 => here.clear(),
                "self" => {}
                "super" => drop(here.pop()),
                _ => {
                    let child = [&here[..], std::slice::from_ref(word)].concat();
                    if self.modules.contains_key(&child) {
                        here = child;
                        continue;
                    }
                    return self.passed_on(&here, word, seen).unwrap_or(here);
                }
            }
        }
        here
    }

    /// Where a name comes from that a module does not define itself.
    fn passed_on(
        &self,
        module: &Module,
        name: &str,
        seen: &mut BTreeSet<(Module, String)>,
    ) -> Option<Module> {
        let file = self.modules.get(module)?;
        if !seen.insert((module.clone(), name.to_owned())) {
            return None;
        }
        if let Some(path) = file.imports.get(name) {
            return Some(self.resolve(module, path, seen));
        }
        file.globs.iter().find_map(|glob| {
            let source = self.resolve(module, glob, seen);
            let defines = |file: &File| {
                ["struct", "enum", "trait", "fn", "type", "const", "mod"]
                    .iter()
                    .any(|kind| file.code.contains(&format!("{kind} {name}")))
            };
            self.modules
                .get(&source)
                .is_some_and(defines)
                .then_some(source)
        })
    }
}

impl File {
    fn new(path: String, code: String) -> Self {
        let mut imports = BTreeMap::new();
        let mut globs = Vec::new();
        for statement in uses(&code) {
            for (name, mut path) in bindings(&statement) {
                if name == "*" {
                    path.pop();
                    globs.push(path);
                } else {
                    imports.insert(name, path);
                }
            }
        }
        Self {
            path,
            code,
            imports,
            globs,
        }
    }
}

/// The trees of all `use` statements.
fn uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, head) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_none_or(char::is_whitespace)
            && let Some(end) = code[at..].find(';')
        {
            found.push(code[at + head.len()..at + end].to_owned());
        }
    }
    found
}

/// The names that a `use` tree binds, each with its path from the module it stands in.
fn bindings(tree: &str) -> Vec<(String, Vec<String>)> {
    let tree = tree.trim();
    let renamed = renames(tree);
    // A path that begins with a plain name is one of a child module, or of another crate, which no module is called
    // like.
    paths(&format!("self::{{{tree}}}"), &["self"])
        .into_iter()
        .filter_map(|(_, path)| {
            let last = path.last()?;
            let name = renamed.get(last).unwrap_or(last).clone();
            let path = match path.get(1).map(String::as_str) {
                Some("crate" | "super" | "self") => path[1..].to_vec(),
                _ => path,
            };
            Some((name, path))
        })
        .filter(|(name, _)| name != "self")
        .collect()
}

/// `A as B`: what A is called here.
fn renames(tree: &str) -> BTreeMap<String, String> {
    let words: Vec<&str> = tree
        .split(|c: char| c.is_whitespace() || "{},:".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    words
        .windows(3)
        .filter(|three| three[1] == "as")
        .map(|three| (three[0].to_owned(), three[2].to_owned()))
        .collect()
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn module(inside: &Path) -> Module {
    let mut words: Module = inside
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let is_root = words.len() == 1 && ["lib", "main"].contains(&words[0].as_str());
    if is_root || words.last().is_some_and(|last| last == "mod") {
        words.pop();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let modules = files.iter().map(|(path, text)| {
            (
                module(Path::new(path)),
                File::new((*path).to_owned(), code(text)),
            )
        });
        let read = Crate {
            modules: modules.collect(),
        };
        let say = |m: Mention| {
            format!(
                "{}: {} -> {} at {}",
                m.folder.join("::"),
                m.from,
                m.to,
                m.place
            )
        };
        read.mentions().into_iter().map(say).collect()
    }

    #[test]
    fn an_edge_belongs_to_the_folder_where_the_paths_part() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use super::y::Z;\nuse crate::b::C;"),
            ("a/y.rs", "pub struct Z;"),
            ("b.rs", "pub struct C; fn f() { crate::a::x::g() }"),
        ];
        assert_eq!(
            edges(&files),
            [
                "a: x -> y at a/x.rs:1",
                ": a -> b at a/x.rs:2",
                ": b -> a at b.rs:1"
            ]
        );
    }

    #[test]
    fn a_name_that_a_door_passes_on_leads_to_the_room_behind_it() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; pub use a::{Thing as Other}; pub(crate) use b::*;",
            ),
            ("a.rs", "pub struct Thing;"),
            ("b.rs", "pub struct Glob;"),
            (
                "c.rs",
                "use crate::Other;\nuse crate::Glob;\nuse crate::Nothing;",
            ),
        ];
        assert_eq!(edges(&files), [": c -> a at c.rs:1", ": c -> b at c.rs:2"]);
    }

    #[test]
    fn parent_and_child_may_use_each_other() {
        let files = [
            ("main.rs", "mod a;"),
            ("a.rs", "mod x; use self::x::Y; struct P;"),
            ("a/x.rs", "use super::P; struct Y;"),
        ];
        assert_eq!(edges(&files), Vec::<String>::new());
    }
}
