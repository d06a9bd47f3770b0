//! Opening a store by its address. In: `sqlite:app.db`, `redb:app.redb`. Out: a client. Never creates a file: an address with a
//! typing error is an error and not an empty store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide_core::provider::Provider;
use duroxide_runtime::client::Client;
use duroxide_sqlite::SqliteProvider;
use duroxide_store::RedbProvider;
use duroxide_store::redb::RedbOptions;

use crate::failure::Failure;

/// What a command does with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Opens the store with this address.
pub(crate) async fn open(address: Option<&str>, access: Access) -> Result<Client, Failure> {
    let address = address.ok_or_else(no_store)?;
    let refuse = |why: String| Failure::Open {
        store: shown(address),
        why,
    };
    let provider: Arc<dyn Provider> = match address.split_once(':') {
        Some(("sqlite", _)) => {
            let url = sqlite_url(address, access);
            let opened = SqliteProvider::new(&url, None).await;
            Arc::new(opened.map_err(|error| refuse(error.to_string()))?)
        }
        Some(("redb", path)) => {
            if !Path::new(path).exists() {
                return Err(refuse("there is no such file".to_owned()));
            }
            let opened = RedbProvider::open_async(path, RedbOptions::default()).await;
            Arc::new(opened.map_err(|error| refuse(error.to_string()))?)
        }
        _ => {
            return Err(refuse("an address begins with sqlite: or redb:".to_owned()));
        }
    };
    Ok(Client::new(provider))
}

pub(crate) fn no_store() -> Failure {
    let how = "no store: give --store sqlite:app.db or redb:app.redb, or set DUROXIDE_STORE";
    Failure::Usage(how.to_owned())
}

/// The file of an SQLite address; `None` for other stores.
pub(crate) fn sqlite_file(address: &str) -> Option<PathBuf> {
    let rest = address.strip_prefix("sqlite:")?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let path = rest.split('?').next().unwrap_or_default();
    (!path.is_empty() && path != ":memory:").then(|| PathBuf::from(path))
}

/// The address with a mode that never creates the file, unless it names one itself.
fn sqlite_url(address: &str, access: Access) -> String {
    if address.contains("mode=") || address.contains(":memory:") {
        return address.to_owned();
    }
    let mode = match access {
        Access::Read => "ro",
        Access::Write => "rw",
    };
    let joint = if address.contains('?') { '&' } else { '?' };
    format!("{address}{joint}mode={mode}")
}

/// The address without a password.
fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{host}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(shown("postgres://me:secret@h/db"), "postgres://me:***@h/db");
        assert_eq!(shown("sqlite:a@b.db"), "sqlite:a@b.db");
    }

    #[test]
    fn an_address_names_its_file() {
        let file = |address| sqlite_file(address);
        assert_eq!(file("sqlite:a.db"), Some(PathBuf::from("a.db")));
        assert_eq!(
            file("sqlite:///x/a.db?mode=ro"),
            Some(PathBuf::from("/x/a.db"))
        );
        assert_eq!(file("redb:a.redb"), None);
    }

    #[test]
    fn a_file_is_never_created() {
        assert_eq!(
            sqlite_url("sqlite:a.db", Access::Read),
            "sqlite:a.db?mode=ro"
        );
        let relaxed = sqlite_url("sqlite:a.db?durability=relaxed", Access::Write);
        assert_eq!(relaxed, "sqlite:a.db?durability=relaxed&mode=rw");
    }
}
