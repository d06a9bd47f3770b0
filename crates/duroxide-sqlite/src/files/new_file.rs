//! A file that appears when it is whole. In: its future path. Out: the finished file under that path, private to its
//! owner, or nothing at all. A file that exists is never replaced here.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::cannot_open;
use crate::error::{Result, SqliteError};

/// Stands between the name of the file and the random part of the name of its draft.
const PARTIAL: &str = ".partial-";

/// A file that does not exist yet, written as a draft under a name of its own until it is whole. A draft that is
/// dropped is removed: a copy that fills the disk must not keep it full.
pub(super) struct NewFile {
    draft: TempPath,
    path: PathBuf,
}

impl NewFile {
    /// Creates an empty draft beside `path`, readable by its owner alone. Refuses a path that exists.
    pub(super) fn at(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let draft = tempfile::Builder::new()
            .prefix(&draft_prefix(path))
            .suffix("")
            .tempfile_in(folder_of(path))
            .map_err(|error| cannot_open(path, &error))?;
        Ok(Self {
            // Closed before SQLite opens it: closing a handle later would drop SQLite's locks.
            draft: draft.into_temp_path(),
            path: path.to_owned(),
        })
    }

    /// Where the draft is.
    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// Gives the whole file its name, on disk. A file that got this name meanwhile stays, and is an error.
    pub(super) fn finish(self) -> Result<()> {
        let Self { draft, path } = self;
        let sync = |what: &Path| File::open(what).and_then(|file| file.sync_all());
        sync(&draft).map_err(|error| cannot_open(&path, &error))?;
        draft.persist_noclobber(&path).map_err(|failed| {
            if failed.error.kind() == std::io::ErrorKind::AlreadyExists {
                exists(&path)
            } else {
                cannot_open(&path, &failed.error)
            }
        })?;
        sync(folder_of(&path)).map_err(|error| cannot_open(&path, &error))
    }
}

/// Drafts of `path` that lie beside it: of copies that run now, or of processes that were killed.
///
/// Nothing removes them by itself, because a running copy cannot be told from a dead one.
#[must_use]
pub fn unfinished_copies(path: &Path) -> Vec<PathBuf> {
    let prefix = draft_prefix(path);
    let Ok(entries) = std::fs::read_dir(folder_of(path)) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let (name, prefix) = (entry.file_name(), prefix.as_encoded_bytes());
            name.as_encoded_bytes().starts_with(prefix)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn draft_prefix(path: &Path) -> OsString {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(PARTIAL);
    prefix
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    folder
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> SqliteError {
    SqliteError::FileExists {
        path: path.to_owned(),
    }
}
