//! A live store against new code, before the code is deployed. In: a store and the code. Out: which running instances the code
//! can go on with, which not and why, and who still needs which version. Never: a write.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use duroxide_core::provider::{
    HandlerKind, InstanceQuery, InstanceStatus, InstanceSummary, KvEntry, Provider, ProviderError,
    fold_key_values,
};
use duroxide_core::replay::Divergence;
use duroxide_core::{Event, EventKind, OrchestrationHandler};
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_runtime::{Client, ClientError};
use semver::Version;

use crate::replay::{ReplayError, replay_events};

/// A handler by name and version.
pub type HandlerVersion = (String, String);

/// A handler that something asks for, in a version or in any.
type Begins = (String, Option<String>);

/// What stands for a version that was left open.
const ANY_VERSION: &str = "in any version";

/// How often an instance is looked at that moves on while it is looked at.
const LOOKS_MAX: usize = 10;

/// What new code means for the instances of a store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreReport {
    /// Running instances that were replayed, and fit.
    pub fitting: usize,
    /// Instances whose history the code does not fit, with the report.
    pub diverging: Vec<(String, Divergence)>,
    /// Instances whose handler, or its version, the code does not have.
    pub without_code: Vec<(String, HandlerVersion)>,
    /// Instances that could not be read, and why.
    pub unreadable: Vec<(String, String)>,
    /// How many running instances need each version of each handler; one that is between two executions needs the version of
    /// the next.
    pub needed: BTreeMap<HandlerVersion, usize>,
    /// How many instances wait to be claimed, by the handler and the version that they need; starts that are still queued
    /// are among them, and running instances that have messages. A start that leaves its version open has `None`.
    pub queued: BTreeMap<(String, Option<String>), u64>,
    /// What instances wait for in the queue, and the code does not have.
    pub queued_without_code: Vec<(String, Option<String>)>,
    /// Whether the store does not say what is queued: then nobody knows which starts need which version.
    pub is_queue_unseen: bool,
}

impl StoreReport {
    /// Whether every running instance and every queued start can go on with the code. A start with a delay that is not over
    /// is in no list, and not looked at.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.diverging.is_empty()
            && self.without_code.is_empty()
            && self.unreadable.is_empty()
            && self.queued_without_code.is_empty()
            && !self.is_queue_unseen
    }

    /// The versions of a handler that running instances and queued starts need, oldest first. What is not here can be removed
    /// from the code.
    #[must_use]
    pub fn versions_needed(&self, name: &str) -> Vec<&str> {
        let running = self.needed.keys().filter(|(own, _)| own == name);
        let queued = self.queued.keys().filter(|(own, _)| own == name);
        let mut versions: Vec<&str> = running
            .map(|(_, version)| version.as_str())
            .chain(queued.filter_map(|(_, version)| version.as_deref()))
            .collect();
        versions.sort_by_key(|version| (Version::parse(version).ok(), *version));
        versions.dedup();
        versions
    }
}

impl fmt::Display for StoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad = self.diverging.len() + self.without_code.len() + self.unreadable.len();
        writeln!(
            f,
            "{} running instances fit the code, {bad} do not",
            self.fitting
        )?;
        for ((name, version), count) in &self.needed {
            writeln!(f, "{count} need {name} {version}")?;
        }
        for ((name, version), count) in &self.queued {
            let version = version.as_deref().unwrap_or(ANY_VERSION);
            writeln!(f, "{count} wait in the queue for {name} {version}")?;
        }
        for (name, version) in &self.queued_without_code {
            let version = version.as_deref().unwrap_or(ANY_VERSION);
            writeln!(f, "the queue: the code has no {name} {version}")?;
        }
        if self.is_queue_unseen {
            writeln!(f, "the store does not say which starts are queued")?;
        }
        for (instance, (name, version)) in &self.without_code {
            writeln!(f, "{instance}: the code has no {name} {version}")?;
        }
        for (instance, report) in &self.diverging {
            writeln!(f, "{instance}: {report}")?;
        }
        for (instance, why) in &self.unreadable {
            writeln!(f, "{instance}: {why}")?;
        }
        Ok(())
    }
}

/// Replays every running instance of a store against code that is to be deployed, and looks at what is queued. Nothing is written, and programs may work on
/// the store meanwhile.
///
/// Queued starts are looked at by the handler and the version that they name, and so are instances between two executions. Two
/// kinds of starts are not seen: one with a delay that is not over, and one whose first turn runs while the report is made.
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
    verify_queued(&client, code, &mut report).await?;
    let mut query = InstanceQuery::new()
        .with_status(InstanceStatus::Running)
        .with_status(InstanceStatus::ContinuedAsNew);
    loop {
        let page = client.query_instances(&query).await?;
        for listed in page.items {
            verify(store.as_ref(), code, listed, &mut report).await;
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
        if !has(code, &work.name, work.version.as_deref()) {
            let missing = (work.name.clone(), work.version.clone());
            report.queued_without_code.push(missing);
        }
        *report.queued.entry((work.name, work.version)).or_default() += work.count;
    }
    Ok(())
}

/// Whether the code has a handler in a version, or in any if none is named.
fn has(code: &OrchestrationRegistry, name: &str, version: Option<&str>) -> bool {
    match version {
        None => code.has(name),
        Some(version) => {
            Version::parse(version).is_ok_and(|it| code.resolve_handler_exact(name, &it).is_some())
        }
    }
}

async fn verify(
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
        let end = history.iter().rev().find(|event| has_ended(&event.kind));
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
    match has(code, &name, version.as_deref()) {
        true => report.fitting += 1,
        false => {
            let version = version.clone().unwrap_or_else(|| ANY_VERSION.to_owned());
            report.without_code.push((id, (name.clone(), version)));
        }
    }
    if let Some(version) = version {
        *report.needed.entry((name, version)).or_default() += 1;
    }
}

fn has_ended(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
    )
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
