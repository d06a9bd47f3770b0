//! Database urls. In: the text a user typed. Out: a [`Target`]. Never touches the file system.

use std::path::{Path, PathBuf};

use crate::error::SqliteError;
use crate::options::Durability;

/// Where the database lives, and what the url asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) durability: Option<Durability>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    File { path: PathBuf, access: Access },
}

/// How a file may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// `mode=rwc`, the default: created if it is missing.
    Create,
    /// `mode=rw`: it must exist.
    Existing,
    /// `mode=ro`: it must exist and is not written.
    ReadOnly,
}

/// A database url, read as [`SqliteProvider::new`](crate::SqliteProvider::new) reads it.
///
/// ```
/// use std::path::Path;
/// use duroxide_sqlite::SqliteUrl;
///
/// let url = SqliteUrl::parse("sqlite:my%20data.db?durability=relaxed")?;
/// assert_eq!(url.file(), Some(Path::new("my data.db")));
/// assert_eq!(url.read_only(), "sqlite:my%20data.db?durability=relaxed&mode=ro");
/// # Ok::<(), duroxide_sqlite::SqliteError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteUrl {
    text: String,
    target: Target,
}

impl SqliteUrl {
    /// Reads a url; touches no file.
    ///
    /// # Errors
    ///
    /// `SqliteError::Url` if it is not understood.
    pub fn parse(url: &str) -> Result<Self, SqliteError> {
        let target = parse(url)?;
        let text = url.to_owned();
        Ok(Self { text, target })
    }

    /// The file; `None` for a database in memory.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.target.place {
            Place::Memory => None,
            Place::File { path, .. } => Some(path),
        }
    }

    /// The url of the same database, opened for reading: a missing file is not created, and nothing is written.
    #[must_use]
    pub fn read_only(&self) -> String {
        self.with_mode("ro")
    }

    /// The url of the same database, which must exist. One that says `mode=ro` stays read-only.
    #[must_use]
    pub fn existing(&self) -> String {
        match self.target.place {
            Place::File {
                access: Access::ReadOnly,
                ..
            } => self.with_mode("ro"),
            _ => self.with_mode("rw"),
        }
    }

    /// The url of the same database, which is created if it is missing.
    #[must_use]
    pub fn created(&self) -> String {
        self.with_mode("rwc")
    }

    fn with_mode(&self, mode: &str) -> String {
        if self.target.place == Place::Memory {
            return self.text.clone();
        }
        let (path, query) = self.text.split_once('?').unwrap_or((&self.text, ""));
        let mode = format!("mode={mode}");
        let others = query
            .split('&')
            .filter(|pair| !pair.is_empty() && pair.split('=').next() != Some("mode"));
        let query: Vec<_> = others.chain([mode.as_str()]).collect();
        format!("{path}?{}", query.join("&"))
    }
}

pub(crate) fn parse(url: &str) -> Result<Target, SqliteError> {
    let bad = |why: &str| SqliteError::Url {
        url: url.to_owned(),
        why: why.to_owned(),
    };
    let rest = url
        .strip_prefix("sqlite:")
        .ok_or_else(|| bad("it must start with `sqlite:`, for example `sqlite:data.db`"))?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));

    let mut memory = path == ":memory:";
    let mut access = Access::Create;
    let mut durability = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, value) {
            ("mode", "memory") => memory = true,
            ("mode", "rwc") => access = Access::Create,
            ("mode", "rw") => access = Access::Existing,
            ("mode", "ro") => access = Access::ReadOnly,
            ("durability", "full") => durability = Some(Durability::Full),
            ("durability", "relaxed") => durability = Some(Durability::Relaxed),
            // A cache shared inside one process would bring back table locks; each store keeps its own.
            ("cache", "shared" | "private") => {}
            _ => {
                return Err(bad(&format!(
                    "`{pair}` is not understood; known are mode=rwc|rw|ro|memory, cache=shared|private \
                     and durability=full|relaxed"
                )));
            }
        }
    }
    if memory {
        return Ok(Target {
            place: Place::Memory,
            durability,
        });
    }
    if path.is_empty() {
        return Err(bad("it names no file"));
    }
    let path = PathBuf::from(percent_decoded(path).ok_or_else(|| bad("the path is not UTF-8"))?);
    Ok(Target {
        place: Place::File { path, access },
        durability,
    })
}

/// `%20` and the like become bytes; a `%` that begins no escape stands for itself.
fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            // `from_str_radix` would take a sign for a digit.
            .filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escape {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, access: Access) -> Target {
        Target {
            place: Place::File {
                path: PathBuf::from(path),
                access,
            },
            durability: None,
        }
    }

    #[test]
    fn every_published_form_is_understood() {
        let cases = [
            ("sqlite:data.db", file("data.db", Access::Create)),
            ("sqlite://data.db", file("data.db", Access::Create)),
            ("sqlite:///tmp/a.db", file("/tmp/a.db", Access::Create)),
            ("sqlite:./d.db?mode=rwc", file("./d.db", Access::Create)),
            ("sqlite:d.db?mode=rw", file("d.db", Access::Existing)),
            ("sqlite:d.db?mode=ro", file("d.db", Access::ReadOnly)),
            ("sqlite:my%20data.db", file("my data.db", Access::Create)),
            ("sqlite:100%.db", file("100%.db", Access::Create)),
            ("sqlite:a%+5.db", file("a%+5.db", Access::Create)),
        ];
        for (url, target) in cases {
            assert_eq!(parse(url).unwrap(), target, "{url}");
        }
    }

    #[test]
    fn memory_is_recognised_in_all_its_spellings() {
        for url in [
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite::memory:?cache=shared",
            "sqlite:any?mode=memory",
            "sqlite:file:x?mode=memory&cache=shared",
        ] {
            assert_eq!(parse(url).unwrap().place, Place::Memory, "{url}");
        }
    }

    #[test]
    fn a_url_that_never_creates_names_the_same_file() {
        let read = |url: &str| SqliteUrl::parse(url).unwrap();
        assert_eq!(read("sqlite:a.db").existing(), "sqlite:a.db?mode=rw");
        assert_eq!(
            read("sqlite:a.db?mode=rwc&durability=full").existing(),
            "sqlite:a.db?durability=full&mode=rw"
        );
        assert_eq!(
            read("sqlite:a.db?mode=ro").existing(),
            "sqlite:a.db?mode=ro"
        );
        // What looks like a parameter in the path is none.
        let tricky = read("sqlite:/srv/mode=prod/app.db");
        assert_eq!(tricky.read_only(), "sqlite:/srv/mode=prod/app.db?mode=ro");
        let file = parse(&tricky.read_only()).unwrap();
        assert_eq!(
            file,
            super::tests::file("/srv/mode=prod/app.db", Access::ReadOnly)
        );
        assert_eq!(read("sqlite::memory:").read_only(), "sqlite::memory:");
    }

    #[test]
    fn durability_can_be_chosen_in_the_url() {
        let target = parse("sqlite:a.db?mode=rwc&durability=relaxed").unwrap();
        assert_eq!(target.durability, Some(Durability::Relaxed));
    }

    #[test]
    fn a_misspelt_parameter_is_an_error_and_not_ignored() {
        let text = parse("sqlite:a.db?durabilty=full").unwrap_err().to_string();
        assert!(text.contains("durabilty=full"), "{text}");
        assert!(parse("postgres://x").is_err());
        assert!(parse("sqlite:").is_err());
    }
}
