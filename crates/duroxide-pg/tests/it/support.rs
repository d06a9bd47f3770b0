//! What the tests share: a server, a schema for each of them, a shell, and the server's clock as a test may move it.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use duroxide_pg::{PostgresOptions, PostgresProvider, ProviderConfig, Within};
use duroxide_validation::TestClock;
use tokio_postgres::{NoTls, Transaction};

/// Where the server is. Without one the tests fail and say what to do: nothing is skipped in silence.
pub(crate) fn url() -> String {
    std::env::var("DUROXIDE_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "these tests need a PostgreSQL server. `cargo xtask test` starts one for them; for a single run start one with \
             `cargo xtask postgres` and set DUROXIDE_TEST_POSTGRES_URL to the url it prints. The server itself comes with \
             `cargo xtask setup` (on Debian: apt-get install postgresql)"
        )
    })
}

/// A schema of its own for one test; it goes when this does.
#[derive(Debug)]
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    pub(crate) fn new() -> Self {
        Self(format!("t_{}", uuid::Uuid::new_v4().simple()))
    }

    pub(crate) fn config(&self) -> ProviderConfig {
        ProviderConfig {
            schema_name: Some(self.0.clone()),
            ..ProviderConfig::url(url())
        }
    }

    pub(crate) async fn open(&self) -> PostgresProvider {
        self.open_with(PostgresOptions::default()).await
    }

    pub(crate) async fn open_with(&self, options: PostgresOptions) -> PostgresProvider {
        let config = ProviderConfig {
            options,
            ..self.config()
        };
        PostgresProvider::new_with_config(config).await.unwrap()
    }

    /// Runs statements as a person with a shell would; `{s}` stands for the schema. Returns how many rows the last one
    /// changed, or its first number.
    pub(crate) fn shell(&self, sql: &str) -> i64 {
        shell(&sql.replace("{s}", &self.0))
    }

    /// What the server says to a statement that it refuses.
    pub(crate) fn shell_fails(&self, sql: &str) -> String {
        let sql = sql.replace("{s}", &self.0);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let client = connect().await;
                let refused = client.simple_query(&sql).await.unwrap_err();
                refused.as_db_error().unwrap().message().to_owned()
            })
        };
        std::thread::spawn(run).join().unwrap()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        shell(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0));
    }
}

/// A connection of an application.
pub(crate) async fn connect() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Rows that a transaction of another program holds.
pub(crate) struct HeldRows(tokio_postgres::Client);

impl HeldRows {
    /// Another program locks rows of a table of the schema: `which` is the table and what chooses them.
    pub(crate) async fn lock(schema: &Schema, which: &str) -> Self {
        let client = connect().await;
        let lock = format!("BEGIN; SELECT 1 FROM {}.{which} FOR UPDATE", schema.0);
        client.batch_execute(&lock).await.unwrap();
        Self(client)
    }

    pub(crate) async fn release(self) {
        self.0.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Starts an instance of `Order` inside a transaction of an application.
pub(crate) async fn start_within(tx: &Transaction<'_>, schema: &Schema, instance: &str) {
    let within = Within::new(tx, &schema.0).unwrap();
    let started = within.start_orchestration(instance, "Order", "{}").await;
    started.unwrap();
}

/// Runs a statement on a connection of its own, from any thread.
pub(crate) fn shell(sql: &str) -> i64 {
    let sql = sql.to_owned();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
            tokio::spawn(connection);
            let answers = client.simple_query(&sql).await.unwrap();
            let mut last = 0;
            for answer in answers {
                match answer {
                    tokio_postgres::SimpleQueryMessage::Row(row) => {
                        last = row.get(0).and_then(|text| text.parse().ok()).unwrap_or(0);
                        return last;
                    }
                    tokio_postgres::SimpleQueryMessage::CommandComplete(rows) => {
                        last = i64::try_from(rows).unwrap();
                    }
                    _ => {}
                }
            }
            last
        })
    };
    std::thread::spawn(run).join().unwrap()
}

/// The server's clock as one schema sees it, moved as far as a case wants.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    schema: Mutex<Option<String>>,
    ahead_ms: Mutex<i64>,
    stores: Mutex<Vec<Weak<PostgresProvider>>>,
}

impl ServerClock {
    /// A store that sees the time pass which the clock is moved by.
    pub(crate) fn seen_by(&self, store: &Arc<PostgresProvider>) {
        self.stores.lock().unwrap().push(Arc::downgrade(store));
    }

    /// Moves the clock of this schema from now on.
    pub(crate) fn of(&self, schema: &str) {
        *self.schema.lock().unwrap() = Some(schema.to_owned());
        if *self.ahead_ms.lock().unwrap() != 0 {
            self.apply();
        }
    }

    fn apply(&self) {
        let ahead = *self.ahead_ms.lock().unwrap();
        if let Some(schema) = &*self.schema.lock().unwrap() {
            shell(&format!(
                "CREATE OR REPLACE FUNCTION {schema}.server_ms(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
                 $$ SELECT (extract(epoch FROM moment) * 1000)::bigint + ({ahead}) $$"
            ));
        }
    }

    fn shift(&self, by_ms: i64) {
        *self.ahead_ms.lock().unwrap() += by_ms;
        self.apply();
    }
}

impl TestClock for ServerClock {
    fn advance(&self, by: Duration) {
        self.shift(i64::try_from(by.as_millis()).unwrap());
        for store in self.stores.lock().unwrap().iter().filter_map(Weak::upgrade) {
            store.let_time_pass(by);
        }
    }

    fn set_back(&self, by: Duration) -> bool {
        self.shift(-i64::try_from(by.as_millis()).unwrap());
        true
    }

    fn now_ms(&self) -> u64 {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_millis()).unwrap();
        u64::try_from(now + *self.ahead_ms.lock().unwrap()).unwrap()
    }
}
