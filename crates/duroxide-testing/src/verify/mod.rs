//! A live store against new code, before the code is deployed. In: a store and the code. Out: which running instances
//! the code can go on with, which not and why, and who still needs which version. Never: a write.

mod report;
mod running;

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide_core::provider::{
    HandlerKind, InstanceQuery, InstanceStatus, Provider, ProviderAdmin, ProviderError,
};
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_runtime::{Client, ClientError};

pub use report::{HandlerVersion, StoreReport};

/// How many ids are asked for at once.
const HELD_IDS_PAGE: u32 = 1_000;

/// Replays every running instance of a store against code that is to be deployed, and looks at what is queued. Nothing
/// is written, and programs may work on the store meanwhile.
///
/// Starts that have not begun, delayed ones too, are looked at by the handler and the version that they name, and so
/// are instances between two executions. To find them, the ids of all instances of the store are read, and those of
/// ended ones too.
///
/// Key-values that an instance had before its current execution are read from its earlier executions. Where those were
/// pruned, the values of today stand in for keys that the current execution has not touched.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide::prelude::*;
/// use duroxide::providers::memory::MemoryProvider;
/// use duroxide::testing::verify_store;
/// use std::sync::Arc;
///
/// #[duroxide::orchestration(version = "1.1.0")]
/// async fn order(_ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
///     Ok(cents)
/// }
///
/// let store = Arc::new(MemoryProvider::new()); // or the one in production
/// let (_activities, orchestrations) = Handlers::new().register(order).build()?;
/// let report = verify_store(store, &orchestrations).await?;
/// assert!(report.is_safe(), "{report}");
/// assert!(report.versions_needed("order").is_empty()); // version 1.0.0 can go
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When the store cannot be asked for its instances. What is wrong with one instance is in the report.
pub async fn verify_store(
    store: Arc<dyn Provider>,
    code: &OrchestrationRegistry,
) -> Result<StoreReport, ClientError> {
    let client = Client::new(Arc::clone(&store));
    let mut report = StoreReport::default();
    // Before the instances: a start that a node claims after this look becomes an instance that the query finds.
    verify_not_begun(store.as_ref(), code, &mut report).await?;
    verify_queued(&client, code, &mut report).await?;
    let mut query = InstanceQuery::new()
        .with_status(InstanceStatus::Running)
        .with_status(InstanceStatus::ContinuedAsNew);
    loop {
        let page = client.query_instances(&query).await?;
        for listed in page.items {
            running::verify(store.as_ref(), code, listed, &mut report).await;
        }
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(report),
        }
    }
}

/// Starts that are queued have no instance yet; the queue says which code they need.
async fn verify_queued(
    client: &Client,
    code: &OrchestrationRegistry,
    report: &mut StoreReport,
) -> Result<(), ClientError> {
    let Some(ready) = client.list_ready_work(u32::MAX).await? else {
        report.is_queue_unseen = true;
        return Ok(());
    };
    for work in ready {
        if work.kind != HandlerKind::Orchestration {
            continue;
        }
        let needed = (work.name, work.version);
        report.note_missing(code, &needed);
        *report.queued.entry(needed).or_default() += work.count;
    }
    Ok(())
}

/// Starts that no turn has taken in, delayed or not: the store holds a message for their id, and no instance.
async fn verify_not_begun(
    store: &dyn Provider,
    code: &OrchestrationRegistry,
    report: &mut StoreReport,
) -> Result<(), ClientError> {
    let Some(admin) = store.as_management_capability() else {
        return Err(ClientError::ManagementNotAvailable);
    };
    let Some(mut ids) = held_ids(admin).await? else {
        report.is_queue_unseen = true;
        return Ok(());
    };
    // After the ids: one that has begun since is an instance.
    for instance in admin.list_instances().await? {
        ids.remove(&instance);
    }
    for id in ids {
        let pending = admin.pending_work(&id).await?.unwrap_or_default();
        let Some(begins) = pending.messages.into_iter().find_map(|it| it.begins) else {
            continue;
        };
        report.note_missing(code, &begins);
        *report.not_begun.entry(begins).or_default() += 1;
    }
    Ok(())
}

/// All ids that a store holds anything of; `None` if it cannot tell.
async fn held_ids(admin: &dyn ProviderAdmin) -> Result<Option<BTreeSet<String>>, ProviderError> {
    let mut ids = BTreeSet::new();
    let mut after = None;
    loop {
        let Some(page) = admin.held_ids(after.as_deref(), HELD_IDS_PAGE).await? else {
            return Ok(None);
        };
        ids.extend(page.ids);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(Some(ids)),
        }
    }
}
