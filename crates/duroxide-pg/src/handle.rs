//! The provider as a program holds it: opening, the schema, and what tests may ask. In: a url and options. Out: a
//! [`PostgresProvider`], whose contract is in `provider.rs` and `admin.rs`.

use std::time::Duration;

use duroxide_core::provider::InstanceQuery;

use crate::connection::migrate;
use crate::connection::schema::Schema;
use crate::error::PgError;
use crate::options::ProviderConfig;
use crate::store::Store;
use crate::thread;

/// A store in one schema of a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Store,
}

impl PostgresProvider {
    /// Opens the schema `duroxide` of the database at this url, and creates it or brings it up to date first.
    ///
    /// # Errors
    ///
    /// If the url is not understood, the database is out of reach or refuses, or the schema belongs to a newer build.
    pub async fn new(database_url: &str) -> std::result::Result<Self, PgError> {
        Self::new_with_schema(database_url, None).await
    }

    /// As [`new`](Self::new), in a schema of this name: one for each tenant.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the name is no plain identifier.
    pub async fn new_with_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> std::result::Result<Self, PgError> {
        let config = ProviderConfig {
            schema_name: schema_name.map(str::to_owned),
            ..ProviderConfig::url(database_url)
        };
        Self::new_with_config(config).await
    }

    /// As [`new`](Self::new), with everything that can be chosen.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the options cannot work; with
    /// [`MigrationPolicy::VerifyOnly`](crate::MigrationPolicy::VerifyOnly) also if the schema is older.
    pub async fn new_with_config(config: ProviderConfig) -> std::result::Result<Self, PgError> {
        Ok(Self {
            store: Store::open(&config).await?,
        })
    }

    /// The schema of this store.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        self.store.db.schema.name()
    }

    /// Creates the schema or brings it up to date; opening a store does so already, unless told not to.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses, or the schema belongs to a newer build.
    pub async fn initialize_schema(&self) -> std::result::Result<(), PgError> {
        thread::prepare(&self.store.db, crate::MigrationPolicy::ApplyAll).await
    }

    /// Removes the schema with everything in it.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses.
    pub async fn cleanup_schema(&self) -> std::result::Result<(), PgError> {
        let mut client = self.store.db.exchanger().await?;
        let client: &mut tokio_postgres::Client = &mut client;
        let tx = client.transaction().await?;
        migrate::drop_schema(&tx, &self.store.db.schema).await?;
        tx.commit().await?;
        Ok(())
    }

    /// The statements that create the schema of this build, for a person who applies them by hand.
    ///
    /// ```
    /// let sql = duroxide_pg::PostgresProvider::schema_sql("tenant_7").unwrap();
    /// assert!(sql.contains("CREATE TABLE orchestrator_queue"));
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is no plain identifier.
    pub fn schema_sql(schema_name: &str) -> std::result::Result<String, PgError> {
        Ok(migrate::print(&Schema::parse(schema_name)?))
    }

    /// How often the server was asked again because two transactions were in each other's way (deadlocks, serialization
    /// failures), or because a migration had outdated a plan.
    #[must_use]
    pub fn retried_transactions(&self) -> u64 {
        self.store.db.retries()
    }

    /// Whether notices of other processes arrive. If not, their work is found by polling.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.store.notifier.hears()
    }

    /// For tests that move the server's clock: as much time has passed here.
    #[doc(hidden)]
    pub fn let_time_pass(&self, by: Duration) {
        self.store.db.expected.pass(by);
    }

    /// For tests: how long turns are waited for that were handed out before their messages were stored.
    #[doc(hidden)]
    pub fn hold_early_turns(&self, hold: Duration) {
        self.store.hold_early(hold);
    }

    /// For tests: how the server would read a page.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses.
    #[doc(hidden)]
    pub async fn page_plan(
        &self,
        query: &InstanceQuery,
    ) -> std::result::Result<Vec<String>, PgError> {
        self.store.page_plan(query).await
    }
}
