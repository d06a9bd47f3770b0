//! Least privilege: a role that migrates, one that runs, one that only reads, one that only starts.

use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin, WorkItem};
use duroxide_pg::{MigrationPolicy, PostgresProvider, ProviderConfig};

use crate::support::{Schema, shell, url};

/// A login of the server that goes with the test.
struct Role(String);

impl Role {
    fn new(kind: &str) -> Self {
        let name = format!("{kind}_{}", uuid::Uuid::new_v4().simple());
        shell(&format!("CREATE ROLE {name} LOGIN"));
        Self(name)
    }

    fn url(&self) -> String {
        url()
            .split_ascii_whitespace()
            .filter(|pair| !pair.starts_with("user="))
            .chain([format!("user={}", self.0).as_str()])
            .collect::<Vec<_>>()
            .join(" ")
    }

    async fn open(&self, schema: &Schema) -> PostgresProvider {
        let config = ProviderConfig {
            schema_name: Some(schema.0.clone()),
            migration_policy: MigrationPolicy::VerifyOnly,
            ..ProviderConfig::url(self.url())
        };
        PostgresProvider::new_with_config(config).await.unwrap()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        shell(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.0));
    }
}

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Orch".to_owned(),
        input: "{}".to_owned(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

#[tokio::test]
async fn a_role_that_runs_needs_no_more_than_rows_and_functions() {
    let schema = Schema::new();
    drop(schema.open().await);
    let role = Role::new("runner");
    let grants = format!(
        "GRANT USAGE ON SCHEMA {{s}} TO {0};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{s}} TO {0};
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{s}} TO {0}",
        role.0
    );
    schema.shell(&grants);
    let store = role.open(&schema).await;
    store
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let found = store
        .fetch_orchestration_item(Duration::from_secs(5), Duration::ZERO, None)
        .await
        .unwrap();
    assert_eq!(found.unwrap().0.instance, "a");
    let refused = store.cleanup_schema().await;
    assert!(refused.is_err(), "a role that runs cannot drop the schema");
}

#[tokio::test]
async fn a_role_that_reads_changes_nothing() {
    let schema = Schema::new();
    let owner = schema.open().await;
    owner
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let role = Role::new("reader");
    let grants = format!(
        "GRANT USAGE ON SCHEMA {{s}} TO {0}; GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO {0}",
        role.0
    );
    schema.shell(&grants);
    let store = role.open(&schema).await;
    assert_eq!(
        store.get_queue_depths().await.unwrap().orchestrator_queue,
        1
    );
    assert!(store.list_instances().await.unwrap().is_empty());
    assert!(store.read("a").await.unwrap().is_empty());
    assert_eq!(
        schema.shell("SELECT count(*) FROM {s}.openings"),
        0,
        "nobody claims, so nobody is listed"
    );
    assert!(
        store
            .enqueue_for_orchestrator(start("b"), None)
            .await
            .is_err()
    );
    assert_eq!(
        owner.get_queue_depths().await.unwrap().orchestrator_queue,
        1
    );
}

/// Also where an application has left something in a transaction of its own, which only a role that writes can move to
/// its queue.
#[tokio::test]
async fn a_role_that_reads_tells_everything_that_is_held() {
    let schema = Schema::new();
    let owner = schema.open().await;
    owner
        .enqueue_for_orchestrator(start("queued"), None)
        .await
        .unwrap();
    // No claim moves it meanwhile.
    schema.shell(
        "INSERT INTO {s}.arrivals (instance_id, kind, work_item, begins)
         SELECT 'arrived', kind, replace(work_item, 'queued', 'arrived'), begins FROM {s}.orchestrator_queue",
    );
    let role = Role::new("reader");
    let grants = format!(
        "GRANT USAGE ON SCHEMA {{s}} TO {0}; GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO {0}",
        role.0
    );
    schema.shell(&grants);
    let store = role.open(&schema).await;
    let mut ids = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.held_ids(after.as_deref(), 1).await.unwrap().unwrap();
        ids.extend(page.ids);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["arrived", "queued"]);
    for id in ids {
        let told = store.snapshot_instance(&id).await.unwrap().unwrap();
        assert_eq!(told.messages.len(), 1, "{told:?}");
        assert!(told.messages[0].json.contains(&id), "{told:?}");
        let family = store.snapshot_family(&id).await.unwrap().unwrap();
        assert_eq!(family.len(), 1, "{family:?}");
    }
}
