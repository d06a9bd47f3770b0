//! One running instance against new code: its history is replayed, or, between two executions, the next one is looked
//! up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use duroxide_core::provider::{InstanceSummary, KvEntry, Provider, ProviderError, fold_key_values};
use duroxide_core::replay::Divergence;
use duroxide_core::{Event, EventKind, OrchestrationHandler};
use duroxide_runtime::registry::OrchestrationRegistry;
use semver::Version;

use super::report::{ANY_VERSION, Begins, StoreReport, has};
use crate::replay::{ReplayError, replay_events};

/// How often an instance is looked at that moves on while it is looked at.
const LOOKS_MAX: usize = 10;

/// Adds to the report what it finds.
pub(super) async fn verify(
    store: &dyn Provider,
    code: &OrchestrationRegistry,
    listed: InstanceSummary,
    report: &mut StoreReport,
) {
    let id = listed.instance_id;
    for _ in 0..LOOKS_MAX {
        let history = match store.read(&id).await {
            Ok(history) => history,
            Err(error) => return report.unreadable.push((id, error.to_string())),
        };
        let end = history.iter().rev().find(|event| event.is_terminal());
        match end.map(|event| &event.kind) {
            None => return verify_history(store, code, id, &history, report).await,
            Some(EventKind::OrchestrationContinuedAsNew { .. }) => {}
            Some(_) => return,
        }
        match next_execution(store, &id).await {
            Ok(Some(begins)) => return verify_next(code, id, begins, report),
            // The next execution has begun since, or the store does not show it.
            Ok(None) => {}
            Err(error) => return report.unreadable.push((id, error.to_string())),
        }
    }
    let why = "it is between two executions, and the store does not show the next one";
    report.unreadable.push((id, why.to_owned()));
}

async fn verify_history(
    store: &dyn Provider,
    code: &OrchestrationRegistry,
    id: String,
    history: &[Event],
    report: &mut StoreReport,
) {
    // Deleted since it was listed: nothing replays it any more.
    let Some((name, version)) = history.first().and_then(Event::started_handler) else {
        return;
    };
    let needed = (name.clone(), version.clone());
    *report.needed.entry(needed.clone()).or_default() += 1;
    let handler = Version::parse(&version)
        .ok()
        .and_then(|version| code.resolve_handler_exact(&name, &version));
    let Some(handler) = handler else {
        return report.without_code.push((id, needed));
    };
    match fits(store, &id, history, &handler).await {
        Ok(()) => report.fitting += 1,
        Err(Misfit::Diverged(divergence)) => report.diverging.push((id, divergence)),
        Err(Misfit::Unreadable(why)) => report.unreadable.push((id, why)),
    }
}

/// What the next execution of an instance needs, as its message says.
async fn next_execution(store: &dyn Provider, id: &str) -> Result<Option<Begins>, ProviderError> {
    let Some(admin) = store.as_management_capability() else {
        return Ok(None);
    };
    let pending = admin.pending_work(id).await?.unwrap_or_default();
    Ok(pending.messages.into_iter().find_map(|it| it.begins))
}

fn verify_next(
    code: &OrchestrationRegistry,
    id: String,
    (name, version): Begins,
    report: &mut StoreReport,
) {
    if has(code, &name, version.as_deref()) {
        report.fitting += 1
    } else {
        let version = version.clone().unwrap_or_else(|| ANY_VERSION.to_owned());
        report.without_code.push((id, (name.clone(), version)));
    }
    if let Some(version) = version {
        *report.needed.entry((name, version)).or_default() += 1;
    }
}

enum Misfit {
    Diverged(Divergence),
    Unreadable(String),
}

async fn fits(
    store: &dyn Provider,
    id: &str,
    history: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
) -> Result<(), Misfit> {
    let values = values_before(store, id, history).await;
    let values = values.map_err(|error| Misfit::Unreadable(error.to_string()))?;
    replay_events(history, handler, &values).map_err(|error| match error {
        ReplayError::Diverged(report) => Misfit::Diverged(report),
        other => Misfit::Unreadable(other.to_string()),
    })
}

/// The key-values with which the current execution began.
async fn values_before(
    store: &dyn Provider,
    id: &str,
    history: &[Event],
) -> Result<HashMap<String, KvEntry>, ProviderError> {
    let current = history.first().map_or(1, |event| event.execution_id);
    if current == 1 {
        return Ok(HashMap::new());
    }
    let mut values = HashMap::new();
    let touched = touched(history);
    for (key, value) in store.get_kv_all_values(id).await? {
        if !touched.contains(&key) {
            let last_updated_at_ms = 0;
            values.insert(
                key,
                KvEntry {
                    value,
                    last_updated_at_ms,
                },
            );
        }
    }
    for execution in 1..current {
        let earlier = store.read_with_execution(id, execution).await?;
        fold_key_values(&mut values, &earlier);
    }
    Ok(values)
}

fn touched(history: &[Event]) -> HashSet<String> {
    let keys = history.iter().filter_map(|event| match &event.kind {
        EventKind::KeyValueSet { key, .. } | EventKind::KeyValueCleared { key } => {
            Some(key.clone())
        }
        _ => None,
    });
    keys.collect()
}
