//! How a schema comes into being, and what is refused.

use duroxide_core::provider::ProviderAdmin;
use duroxide_pg::{MigrationPolicy, PgError, PostgresProvider, ProviderConfig};
use futures::future::join_all;

use crate::support::{Schema, url};

fn verifying(schema: &Schema) -> ProviderConfig {
    ProviderConfig {
        migration_policy: MigrationPolicy::VerifyOnly,
        ..schema.config()
    }
}

#[tokio::test]
async fn any_number_of_processes_may_start_at_once() {
    let schema = Schema::new();
    let opened = join_all((0..6).map(|_| PostgresProvider::new_with_config(schema.config()))).await;
    for store in opened {
        assert_eq!(store.unwrap().schema_name(), schema.0);
    }
    assert_eq!(
        schema.shell("SELECT count(*) FROM {s}.migrations WHERE number = 1"),
        1
    );
}

#[tokio::test]
async fn verify_only_changes_nothing() {
    let schema = Schema::new();
    let refused = PostgresProvider::new_with_config(verifying(&schema)).await;
    assert!(
        matches!(refused, Err(PgError::NeedsMigration { found: 0, .. })),
        "{refused:?}"
    );
    let count = format!(
        "SELECT count(*) FROM pg_namespace WHERE nspname = '{}'",
        schema.0
    );
    assert_eq!(schema.shell(&count), 0);
    schema.open().await;
    PostgresProvider::new_with_config(verifying(&schema))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let schema = Schema::new();
    drop(schema.open().await);
    schema.shell("INSERT INTO {s}.migrations (number, name, checksum) VALUES (9999, 'later', 'x')");
    let refused = PostgresProvider::new_with_config(schema.config()).await;
    assert!(
        matches!(refused, Err(PgError::NewerSchema { found: 9999, .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_migration_with_another_text_is_refused() {
    let schema = Schema::new();
    drop(schema.open().await);
    schema.shell("UPDATE {s}.migrations SET checksum = 'x' WHERE number = 1");
    let refused = PostgresProvider::new_with_config(schema.config()).await;
    assert!(
        matches!(refused, Err(PgError::ChangedMigration { number: 1, .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_printed_sql_makes_the_schema() {
    let schema = Schema::new();
    schema.shell(&PostgresProvider::schema_sql(&schema.0).unwrap());
    let store = PostgresProvider::new_with_config(verifying(&schema))
        .await
        .unwrap();
    assert!(store.list_instances().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_schema_is_removed_with_everything_in_it() {
    let schema = Schema::new();
    let store = schema.open().await;
    store.cleanup_schema().await.unwrap();
    assert!(store.list_instances().await.is_err());
    store.initialize_schema().await.unwrap();
    assert!(store.list_instances().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_name_that_is_no_identifier_reaches_no_statement() {
    let refused = PostgresProvider::new_with_schema(&url(), Some("x; DROP SCHEMA public")).await;
    assert!(
        matches!(refused, Err(PgError::SchemaName { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_out_of_reach_and_the_password_stays_secret() {
    let url = "postgres://app:hunter2@127.0.0.1:1/orders";
    let error = PostgresProvider::new(url).await.unwrap_err();
    assert!(matches!(error, PgError::OutOfReach { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}
