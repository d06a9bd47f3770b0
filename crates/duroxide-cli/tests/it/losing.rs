//! A move one of whose stores is lost in the middle.

use std::sync::Arc;

use duroxide::Client;
use duroxide::providers::ProviderAdmin as _;
use duroxide_pg::PostgresProvider;

use crate::moving::{contents_of, run};
use crate::through_postgres::{server, server_url};

/// Two schemas of the tests' server; they go when this does.
struct Schemas {
    server: String,
    from: String,
    to: String,
}

impl Schemas {
    async fn new(server: String) -> Self {
        let pid = std::process::id();
        let (from, to) = (format!("lost_from_{pid}"), format!("lost_to_{pid}"));
        let these = Self { server, from, to };
        these.drop_all().await;
        these
    }

    async fn open(&self, schema: &str) -> Arc<PostgresProvider> {
        let store = PostgresProvider::new_with_schema(&self.server, Some(schema)).await;
        Arc::new(store.unwrap())
    }

    /// Runs statements; `{from}` and `{to}` stand for the schemas.
    async fn sql(&self, text: &str) {
        let no_tls = tokio_postgres::NoTls;
        let connected = tokio_postgres::connect(&self.server, no_tls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let text = text.replace("{from}", &self.from).replace("{to}", &self.to);
        client.batch_execute(&text).await.unwrap();
    }

    async fn drop_all(&self) {
        self.sql("DROP SCHEMA IF EXISTS {from} CASCADE; DROP SCHEMA IF EXISTS {to} CASCADE")
            .await;
    }
}

/// The source is lost in the moment in which the target is closed for it: what became of the source is not known, so
/// nothing is opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_whose_source_cannot_be_read_opens_nothing() {
    let url = server_url();
    let schemas = Schemas::new(server()).await;
    let (source, target) = (
        schemas.open(&schemas.from).await,
        schemas.open(&schemas.to).await,
    );
    let client = Client::new(source);
    client
        .start_orchestration("i", "order", "{}")
        .await
        .unwrap();
    schemas
        .sql(
            "CREATE FUNCTION {to}.lose() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN ALTER TABLE {from}.closing RENAME TO lost; RETURN NEW; END $$;
             CREATE TRIGGER lose AFTER INSERT ON {to}.closing FOR EACH ROW EXECUTE FUNCTION {to}.lose()",
        )
        .await;
    let arguments = [
        "--schema",
        &schemas.from,
        "move",
        &url,
        &url,
        "--to-schema",
        &schemas.to,
        "--yes",
    ];
    let failed = run(&arguments);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("Nothing was opened"), "{failed:?}");
    let closed = target.closed_because().await.unwrap();
    assert!(closed.is_some_and(|reason| reason.contains("is not finished")));
    schemas
        .sql("DROP TRIGGER lose ON {to}.closing; ALTER TABLE {from}.lost RENAME TO closing")
        .await;
    let done = run(&arguments);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(target.closed_because().await.unwrap(), None);
    let came = contents_of(&["--store", &url, "--schema", &schemas.to]);
    assert_eq!(came.len(), 1);
    schemas.drop_all().await;
}
