//! Where a store is, and opening it. In: `sqlite:app.db`, `redb:app.redb`, `postgres://…`. Out: a client. Only
//! [`Address::create`] makes a file or a schema, and nothing here changes a schema that is there: an address with a
//! typing error is an error, and looking stops no program.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide_core::provider::{Provider, ProviderAdmin};
use duroxide_pg::{MigrationPolicy, PgError, PostgresOptions, PostgresProvider, ProviderConfig};
use duroxide_runtime::client::Client;
use duroxide_sqlite::{SchemaUpgrade, SqliteError, SqliteOptions, SqliteProvider, SqliteUrl};
use duroxide_store::RedbProvider;
use duroxide_store::redb::RedbOptions;

use crate::failure::Failure;

/// What a command does with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looks once.
    Read,
    /// Looks again and again, or at everything.
    Watch,
    Write,
}

/// Where a store is.
#[derive(Clone)]
pub(crate) enum Address {
    Sqlite(SqliteUrl, PathBuf),
    Redb(PathBuf),
    Postgres { url: String, schema: Option<String> },
}

impl Address {
    /// Reads what `--store` and `--schema` said.
    pub(crate) fn of(text: Option<&str>, schema: Option<&str>) -> Result<Self, Failure> {
        let text = text.ok_or_else(no_store)?;
        let refuse = |why: String| Failure::Open {
            store: redacted(text),
            why,
        };
        let address = match text.split_once(':') {
            Some(("sqlite", _)) => {
                let url = SqliteUrl::parse(text).map_err(|error| refuse(error.to_string()))?;
                let Some(file) = url.file().map(Path::to_owned) else {
                    let why = "a store in memory belongs to the process that made it";
                    return Err(refuse(why.to_owned()));
                };
                Self::Sqlite(url, file)
            }
            Some(("redb", path)) => Self::Redb(path.strip_prefix("//").unwrap_or(path).into()),
            Some(("postgres" | "postgresql", _)) => Self::Postgres {
                url: text.to_owned(),
                schema: schema.map(str::to_owned),
            },
            _ => {
                let why = "an address begins with sqlite:, redb: or postgres:";
                return Err(refuse(why.to_owned()));
            }
        };
        match address {
            Self::Sqlite(..) | Self::Redb(_) if schema.is_some() => Err(Failure::Usage(
                "--schema is for postgres: stores only".to_owned(),
            )),
            address => Ok(address),
        }
    }

    /// The file of an SQLite store; others have none that can be worked on as a whole.
    pub(crate) fn sqlite_file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(_, file) => Some(file),
            Self::Redb(_) | Self::Postgres { .. } => None,
        }
    }

    /// The files that belong to the store.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Sqlite(_, file) => ["", "-wal", "-shm", "-sole"]
                .iter()
                .map(|end| {
                    let mut name = file.clone().into_os_string();
                    name.push(end);
                    name.into()
                })
                .collect(),
            Self::Redb(file) => vec![file.clone()],
            Self::Postgres { .. } => Vec::new(),
        }
    }

    /// A client on the store. A schema of another build is refused.
    pub(crate) async fn open(&self, access: Access) -> Result<Client, Failure> {
        Ok(Client::new(self.provider(access).await?).acting_as(operator()))
    }

    /// Whether both name one store, as far as names show it.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite(_, one), Self::Sqlite(_, other))
            | (Self::Redb(one), Self::Redb(other)) => {
                let place = |path: &Path| std::fs::canonicalize(path).unwrap_or(path.to_owned());
                place(one) == place(other)
            }
            (
                Self::Postgres { url, schema },
                Self::Postgres {
                    url: other,
                    schema: other_schema,
                },
            ) => url == other && schema == other_schema,
            _ => false,
        }
    }

    /// Where it is, in a form that can be read on another machine: files with their whole path, schemas by their names.
    /// Without a password.
    pub(crate) fn place(&self) -> String {
        let whole = |file: &Path| {
            let found = std::fs::canonicalize(file).or_else(|_| std::path::absolute(file));
            found.unwrap_or(file.to_owned())
        };
        match self {
            Self::Sqlite(_, file) => format!("sqlite:{}", whole(file).display()),
            Self::Redb(file) => format!("redb:{}", whole(file).display()),
            Self::Postgres { url, schema } => match schema {
                Some(schema) => format!("{} (schema {schema})", redacted(url)),
                None => redacted(url),
            },
        }
    }

    /// The store itself, which is made if it does not exist, also if an earlier call was killed while it made the file.
    /// A schema of another build is refused, as everywhere.
    pub(crate) async fn create(&self) -> Result<Arc<dyn Provider>, Failure> {
        let provider: Arc<dyn Provider> = match self {
            Self::Sqlite(url, _) => {
                let options = SqliteOptions {
                    upgrade: SchemaUpgrade::Refuse,
                    ..SqliteOptions::default()
                };
                let opened = SqliteProvider::new(&url.created(), Some(options)).await;
                Arc::new(opened.map_err(|error| self.refused(error))?)
            }
            Self::Redb(path) => {
                let opened = RedbProvider::open_async(path, RedbOptions::default()).await;
                Arc::new(opened.map_err(|error| self.refused(error))?)
            }
            Self::Postgres { url, schema } => {
                let schema = schema.as_deref();
                let write = Access::Write;
                let mut opened = postgres(url, schema, MigrationPolicy::VerifyOnly, write).await;
                // Nothing of ours is there.
                if let Err(PgError::NeedsMigration { found: 0, .. }) = opened {
                    opened = postgres(url, schema, MigrationPolicy::ApplyAll, write).await;
                }
                Arc::new(opened.map_err(|error| self.refused(error))?)
            }
        };
        Ok(provider)
    }

    /// The store itself. A schema of another build is refused.
    pub(crate) async fn provider(&self, access: Access) -> Result<Arc<dyn Provider>, Failure> {
        let provider: Arc<dyn Provider> = match self {
            Self::Sqlite(url, file) => {
                if !file.exists() {
                    return Err(self.refused("there is no such file"));
                }
                let url = match access {
                    Access::Read | Access::Watch => url.read_only(),
                    Access::Write => url.existing(),
                };
                let options = SqliteOptions {
                    upgrade: SchemaUpgrade::Refuse,
                    ..SqliteOptions::default()
                };
                let opened = SqliteProvider::new(&url, Some(options)).await;
                let refused = |error: SqliteError| match error {
                    SqliteError::Io { detail } => self.refused(cannot_write_beside(&detail)),
                    error => self.refused(error),
                };
                Arc::new(opened.map_err(refused)?)
            }
            Self::Redb(path) => {
                if !path.exists() {
                    return Err(self.refused("there is no such file"));
                }
                let opened = RedbProvider::open_async(path, RedbOptions::default()).await;
                Arc::new(opened.map_err(|error| self.refused(error))?)
            }
            Self::Postgres { url, schema } => {
                let policy = MigrationPolicy::VerifyOnly;
                let opened = postgres(url, schema.as_deref(), policy, access).await;
                Arc::new(opened.map_err(|error| self.refused(in_words(&error)))?)
            }
        };
        Ok(provider)
    }

    pub(crate) fn refused(&self, why: impl fmt::Display) -> Failure {
        Failure::Open {
            store: self.to_string(),
            why: why.to_string(),
        }
    }
}

/// Without a password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(_, file) => write!(f, "sqlite:{}", file.display()),
            Self::Redb(file) => write!(f, "redb:{}", file.display()),
            Self::Postgres { url, .. } => f.write_str(&redacted(url)),
        }
    }
}

/// What an operator can do if SQLite cannot work with its files at all.
fn cannot_write_beside(detail: &str) -> String {
    format!(
        "{detail}; also for looking, SQLite keeps two files beside it, so the disk must work, and you must have the right to \
         write in the folder"
    )
}

/// A PostgreSQL provider, with the few connections that a command needs. A command that looks once waits neither for a
/// second connection nor for statements to be prepared.
pub(crate) async fn postgres(
    url: &str,
    schema: Option<&str>,
    policy: MigrationPolicy,
    access: Access,
) -> Result<PostgresProvider, PgError> {
    let config = ProviderConfig {
        schema_name: schema.map(str::to_owned),
        migration_policy: policy,
        options: PostgresOptions {
            pool_size: 5,
            listen: access != Access::Read,
            prepared_statements: access != Access::Read,
            application_name: "duroxide-cli".to_owned(),
            ..PostgresOptions::default()
        },
        ..ProviderConfig::url(url)
    };
    PostgresProvider::new_with_config(config).await
}

/// What an operator can do about it, where the error speaks to a program.
fn in_words(error: &PgError) -> String {
    match error {
        PgError::NeedsMigration {
            schema, found: 0, ..
        } => {
            format!("there is no store in schema {schema}; --schema names another one")
        }
        PgError::NeedsMigration {
            schema,
            found,
            needed,
        } => format!(
            "schema {schema} has version {found} and this build needs {needed}; `duroxide migrate` does it"
        ),
        PgError::OutOfReach { why } => format!("the database is out of reach ({why})"),
        other => other.to_string(),
    }
}

fn no_store() -> Failure {
    let how = "no store: give --store sqlite:app.db, redb:app.redb or postgres://…, or set DUROXIDE_STORE";
    Failure::Usage(how.to_owned())
}

/// An address without its passwords: neither that of the user nor those among the parameters.
pub(crate) fn redacted(address: &str) -> String {
    let (place, query) = address.split_once('?').unwrap_or((address, ""));
    let place = match place.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((user, _)) => format!("{scheme}://{user}:***@{host}"),
                None => place.to_owned(),
            },
            None => place.to_owned(),
        },
        None => place.to_owned(),
    };
    if query.is_empty() {
        return place;
    }
    let pairs: Vec<_> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.to_ascii_lowercase().contains("password") => format!("{key}=***"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{place}?{}", pairs.join("&"))
}

/// Who runs the command, for the audit trail.
pub(crate) fn operator() -> String {
    let named = ["USER", "LOGNAME", "USERNAME"].into_iter();
    let user = named.filter_map(|name| std::env::var(name).ok()).next();
    format!("duroxide-cli:{}", user.as_deref().unwrap_or("unknown"))
}

/// The administrative half of a store.
pub(crate) fn admin(store: &Arc<dyn Provider>) -> Result<&dyn ProviderAdmin, Failure> {
    let admin = store.as_management_capability();
    admin.ok_or_else(|| cannot("has no administrative half"))
}

/// A store that cannot do what is asked.
pub(crate) fn cannot(what: &str) -> Failure {
    Failure::Store(format!("this store {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_passwords() {
        for (address, shown) in [
            ("postgres://me:secret@h/db", "postgres://me:***@h/db"),
            ("postgres://me:a@b@h/db", "postgres://me:***@h/db"),
            ("postgres://me@h/db", "postgres://me@h/db"),
            (
                "postgres://h/db?user=me&password=x&sslpassword=y",
                "postgres://h/db?user=me&password=***&sslpassword=***",
            ),
            ("sqlite:a@b.db", "sqlite:a@b.db"),
        ] {
            assert_eq!(redacted(address), shown);
        }
    }

    #[test]
    fn an_address_names_its_file_as_the_store_reads_it() {
        let file = |address| {
            let address = Address::of(Some(address), None).expect("an address");
            address.files().into_iter().next()
        };
        assert_eq!(file("sqlite:a.db"), Some(PathBuf::from("a.db")));
        assert_eq!(
            file("sqlite:my%20data.db"),
            Some(PathBuf::from("my data.db"))
        );
        let absolute = file("sqlite:///x/a.db?mode=ro");
        assert_eq!(absolute, Some(PathBuf::from("/x/a.db")));
        assert_eq!(file("redb://a.redb"), Some(PathBuf::from("a.redb")));
        assert_eq!(file("postgres://h/db"), None);
    }
}
