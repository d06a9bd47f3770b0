//! The example provider of the guide passes the kit; what it does not offer is skipped.

#[path = "../../examples/tiny_provider/admin.rs"]
mod admin;
#[path = "../../examples/tiny_provider/factory.rs"]
mod factory;
#[path = "../../examples/tiny_provider/history.rs"]
mod history;
#[path = "../../examples/tiny_provider/provider.rs"]
mod provider;
#[path = "../../examples/tiny_provider/state.rs"]
mod state;
#[path = "../../examples/tiny_provider/turns.rs"]
mod turns;
#[path = "../../examples/tiny_provider/work.rs"]
mod work;

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::clock::SystemClock;
use duroxide_core::provider::{MessageRule, Provider, StartRule, Submission, Submitted};
use duroxide_validation::run_all_validations;

fn start_of(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "order".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn message_for(instance: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "payments".to_owned(),
        data: "7".to_owned(),
    }
}

/// It has only the published methods, so it looks first and writes after; it deletes messages of instances that it does
/// not know.
#[tokio::test]
async fn a_start_is_stored_before_its_messages_where_stores_delete_early_ones() {
    let store = provider::TinyProvider::new(Arc::new(SystemClock));
    let (start, message) = (start_of("order-7"), message_for("order-7"));
    let both = Submission::start(
        start.clone(),
        None,
        StartRule::MustBeNew,
        vec![message.clone()],
    );
    assert_eq!(store.submit(both).await.unwrap(), Submitted::Started);
    let lease = Duration::from_secs(5);
    let claimed = store.fetch_orchestration_item(lease, Duration::ZERO, None);
    let (item, _, _) = claimed.await.unwrap().expect("it is ready");
    assert_eq!(item.messages, [start, message]);
}

#[tokio::test]
async fn a_message_right_after_a_start_is_taken_where_stores_do_not_tell_what_is_queued() {
    let store = provider::TinyProvider::new(Arc::new(SystemClock));
    let enqueued = store.enqueue_for_orchestrator(start_of("order-7"), None);
    enqueued.await.unwrap();
    let message = vec![message_for("order-7")];
    let sent = Submission::messages("order-7", MessageRule::MustBeAlive, message);
    let submitted = store.submit(sent).await.unwrap();
    assert!(matches!(submitted, Submitted::Joined(_)), "{submitted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_passes_every_case_it_can_run() {
    let report = run_all_validations(factory::TinyFactory::default()).await;
    report.assert_ok();
    assert!(report.passed().count() > 330, "{}", report.table());
}
