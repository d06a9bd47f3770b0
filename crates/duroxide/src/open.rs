//! Where a store is, in one text. In: a url. Out: an app on that store. Which stores there are depends on features.

use std::fmt;
use std::sync::Arc;

use duroxide_runtime::AppBuilder;

use crate::providers::Provider;
use crate::providers::memory::MemoryProvider;

/// Where programs begin.
///
/// ```
/// # #[cfg(feature = "macros")]
/// # mod program {
/// use duroxide::prelude::*;
///
/// #[duroxide::activity]
/// async fn greet(name: String) -> Result<String, String> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// #[duroxide::orchestration]
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
///     Ok(ctx.call(greet, &name).await?)
/// }
///
/// # pub
/// async fn run() -> Result<(), Box<dyn std::error::Error>> {
///     let app = Duroxide::open("memory:").register(greet).register(hello).start().await?;
///     let first = app.client().start(hello, "Rust").id("first").await?;
///     assert_eq!(first.result().await?, "Hello, Rust!");
///     app.shutdown().await;
///     Ok(())
/// }
/// # }
/// # #[cfg(feature = "macros")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() { program::run().await.unwrap() }
/// # #[cfg(not(feature = "macros"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Duroxide;

impl Duroxide {
    /// An app on the store behind a url. The store is opened when the app starts.
    ///
    /// | url | store | feature |
    /// |---|---|---|
    /// | `sqlite:shop.db`, with the options of [`SqliteProvider`](crate::providers::sqlite::SqliteProvider::new) | one SQLite file | `sqlite` |
    /// | `redb:shop.redb` | one redb file | `redb` |
    /// | `postgres://user@host/shop` | PostgreSQL, for many machines | `postgres` |
    /// | `memory:` | this process alone | |
    pub fn open(url: impl Into<String>) -> AppBuilder {
        let url = url.into();
        AppBuilder::opening(async move { open(&url).await })
    }

    /// An app on a store that is open already.
    pub fn on(store: Arc<dyn Provider>) -> AppBuilder {
        AppBuilder::on(store)
    }
}

/// A url of a store that is not known, or whose feature is off.
///
/// Only its scheme is kept, because the rest may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownStore {
    /// The part before the first `:`, with it; empty if there is none.
    pub scheme: String,
}

/// The stores of this crate that are there with a feature, by scheme.
const WITH_FEATURE: [(&str, &str); 4] = [
    ("sqlite:", "sqlite"),
    ("redb:", "redb"),
    ("postgres:", "postgres"),
    ("postgresql:", "postgres"),
];

impl UnknownStore {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0405"
    }
}

impl fmt::Display for UnknownStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut known = vec!["memory:"];
        if cfg!(feature = "sqlite") {
            known.push("sqlite:FILE");
        }
        if cfg!(feature = "redb") {
            known.push("redb:FILE");
        }
        if cfg!(feature = "postgres") {
            known.push("postgres://…");
        }
        let (scheme, known) = (&self.scheme, known.join(", "));
        if let Some((_, feature)) = WITH_FEATURE.iter().find(|(known, _)| known == scheme) {
            return write!(
                f,
                "a url that begins with `{scheme}` needs the feature `{feature}` of the crate `duroxide`"
            );
        }
        match scheme.as_str() {
            "" => write!(
                f,
                "a url begins with the kind of its store; known are {known}"
            ),
            _ => write!(
                f,
                "a url that begins with `{scheme}` names no store; known are {known}"
            ),
        }
    }
}

impl std::error::Error for UnknownStore {}

async fn open(url: &str) -> Result<Arc<dyn Provider>, Box<dyn std::error::Error + Send + Sync>> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryProvider::new()));
    }
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite:") {
        let store = crate::providers::sqlite::SqliteProvider::new(url, None).await?;
        return Ok(Arc::new(store));
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        let store = crate::providers::postgres::PostgresProvider::new(url).await?;
        return Ok(Arc::new(store));
    }
    #[cfg(feature = "redb")]
    if let Some(path) = url.strip_prefix("redb:") {
        let options = crate::providers::redb::RedbOptions::default();
        let path = path.strip_prefix("//").unwrap_or(path).to_owned();
        let store = crate::providers::redb::RedbProvider::open_async(path, options).await?;
        return Ok(Arc::new(store));
    }
    let scheme = url.split_once(':').map(|(scheme, _)| format!("{scheme}:"));
    Err(Box::new(UnknownStore {
        scheme: scheme.unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_names_no_store_is_told_without_its_password() {
        for url in ["mysql://me:secret@host/db", "secret", ":secret"] {
            let refused = open(url).await.map(|_| ()).expect_err("no such store");
            let told = format!("{refused} {refused:?}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_url_without_a_kind_and_one_of_a_feature_that_is_off_are_told_apart() {
        let told = |scheme: &str| {
            let scheme = scheme.to_owned();
            UnknownStore { scheme }.to_string()
        };
        assert!(told("").starts_with("a url begins with the kind of its store"));
        assert!(told("redb:").contains("needs the feature `redb`"));
        assert!(told("mysql:").contains("names no store"));
    }
}
