//! An image is opened as the next process would. In: a folder, what had been acknowledged. Out: what is not there.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::{Clock, ClockRef, SystemClock};
use duroxide_core::provider::{Provider, TurnClaim};
use duroxide_runtime::{Client, OrchestrationStatus};

use super::worker::{Kind, output};

/// Leases of the process that died are over.
#[derive(Debug)]
struct AnHourLater;

impl Clock for AnHourLater {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + 3_600_000
    }
}

/// What was acknowledged and is not there.
pub(super) fn look(kind: Kind, folder: &Path, acknowledged: &[&str]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let clock: ClockRef = Arc::new(AnHourLater);
        match kind.open(folder, Some(clock)).await {
            Ok(store) => missing(&store, acknowledged).await,
            Err(error) => vec![format!("does not open: {error}")],
        }
    })
}

async fn missing(store: &Arc<dyn Provider>, acknowledged: &[&str]) -> Vec<String> {
    let client = Client::new(Arc::clone(store));
    let known = match known(store).await {
        Ok(known) => known,
        Err(error) => return vec![error],
    };
    let mut missing = Vec::new();
    for what in acknowledged {
        if let Some(id) = what.strip_prefix("started ")
            && !known.contains(id)
        {
            missing.push(format!("{id} was started and is not there"));
        }
        if let Some(id) = what.strip_prefix("done ") {
            match client.get_orchestration_status(id).await {
                Ok(OrchestrationStatus::Completed { output: seen, .. }) if seen == output(id) => {}
                other => missing.push(format!("{id} was done and is {other:?}")),
            }
            let value = client.get_kv_all_values(id).await.unwrap_or_default();
            if value.get("input").map(String::as_str) != Some(id) {
                missing.push(format!("{id} was done and has key-values {value:?}"));
            }
        }
    }
    missing
}

/// Instances that exist, and those whose start is queued.
async fn known(store: &Arc<dyn Provider>) -> Result<BTreeSet<String>, String> {
    let admin = store
        .as_management_capability()
        .expect("both stores have it");
    let listed = admin.list_instances().await;
    let mut known: BTreeSet<String> = listed.map_err(|e| e.to_string())?.into_iter().collect();
    let claim = TurnClaim::new(1_000, Duration::from_secs(60), Duration::ZERO);
    let claimed = store.claim_turns(claim).await.map_err(|e| e.to_string())?;
    known.extend(claimed.into_iter().map(|turn| turn.item.instance));
    Ok(known)
}
