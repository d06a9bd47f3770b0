//! One pass of a policy over a store, step by step. The caller may stop after any step: the next pass begins anew and
//! finds what is left.

use std::collections::VecDeque;
use std::time::Duration;

use duroxide_core::provider::{
    DeleteInstanceResult, InstanceFilter, InstanceQuery, InstanceStatus, InstanceSummary,
    PAGE_SIZE_MAX, Page, ProviderAdmin, ProviderError, PruneOptions, RefusalKind, SortKey,
    SortOrder,
};

use super::{RetentionPolicy, RetentionReport, RetentionRule};
use crate::failures::Failures;

/// Instances that one step deletes or prunes. Stores delete large ones in steps of their own.
const STEP: usize = 20;

/// A pass.
pub(crate) struct Sweep {
    policy: RetentionPolicy,
    now_ms: u64,
    is_preview: bool,
    has_deleted: bool,
    rule: usize,
    phase: Phase,
    failures: Failures,
}

/// What the next step does for the current rule.
enum Phase {
    Begin,
    /// Passes over instances that are kept because they are new.
    PassOver {
        query: InstanceQuery,
        left: u32,
    },
    Delete(Remaining),
    BeginExecutions,
    Prune(Remaining),
    /// After the last rule: the space that was used goes back.
    GiveBack,
    Over,
}

/// What is left to do of a query: instances that a page found, and the page after it. Pages are large, because a store
/// may have to read all instances for one; steps are small, because others want to write meanwhile.
struct Remaining {
    found: VecDeque<InstanceSummary>,
    next: Option<InstanceQuery>,
}

impl Remaining {
    fn of(query: InstanceQuery) -> Self {
        Self {
            found: VecDeque::new(),
            next: Some(query.with_page_size(PAGE_SIZE_MAX)),
        }
    }

    /// The instances of the next step, and what is left then; `None` if nothing is.
    async fn step(
        mut self,
        admin: &dyn ProviderAdmin,
    ) -> Result<Option<(Vec<InstanceSummary>, Self)>, ProviderError> {
        if self.found.is_empty() {
            let Some(query) = self.next.take() else {
                return Ok(None);
            };
            let page = admin.query_instances(&query).await?;
            self.next = next_page(query, &page);
            self.found = page.items.into();
        }
        let count = self.found.len().min(STEP);
        let these = self.found.drain(..count).collect();
        Ok(Some((these, self)))
    }
}

impl Sweep {
    /// A pass that deletes; `now_ms` is the time of the store.
    pub(crate) fn new(policy: RetentionPolicy, now_ms: u64) -> Self {
        Self {
            policy,
            now_ms,
            is_preview: false,
            has_deleted: false,
            rule: 0,
            phase: Phase::Begin,
            failures: Failures::default(),
        }
    }

    /// A pass that only counts.
    pub(crate) fn preview(policy: RetentionPolicy, now_ms: u64) -> Self {
        Self {
            is_preview: true,
            ..Self::new(policy, now_ms)
        }
    }

    /// One step; `None` if the pass is over.
    pub(crate) async fn step(
        &mut self,
        admin: &dyn ProviderAdmin,
    ) -> Result<Option<RetentionReport>, ProviderError> {
        let Some(rule) = self.policy.rules.get(self.rule).cloned() else {
            return self.give_back(admin).await;
        };
        let mut done = RetentionReport::default();
        self.phase = match std::mem::replace(&mut self.phase, Phase::Begin) {
            Phase::Begin => self.begin(&rule),
            Phase::PassOver { query, left } => self.pass_over(admin, &rule, query, left).await?,
            Phase::Delete(remaining) => match remaining.step(admin).await? {
                Some((these, remaining)) => {
                    done = self.delete(admin, &rule, &these).await?;
                    Phase::Delete(remaining)
                }
                None => Phase::BeginExecutions,
            },
            Phase::BeginExecutions => match rule.executions_kept {
                Some(_) => Phase::Prune(Remaining::of(all_of(&rule))),
                None => self.next_rule(),
            },
            Phase::Prune(remaining) => match remaining.step(admin).await? {
                Some((these, remaining)) => {
                    done = self.prune(admin, &rule, &these).await?;
                    Phase::Prune(remaining)
                }
                None => self.next_rule(),
            },
            over @ (Phase::GiveBack | Phase::Over) => over,
        };
        self.has_deleted |= !self.is_preview && done != RetentionReport::default();
        Ok(Some(done))
    }

    /// After the last rule: one step of giving space back, if anything was deleted.
    async fn give_back(
        &mut self,
        admin: &dyn ProviderAdmin,
    ) -> Result<Option<RetentionReport>, ProviderError> {
        match self.phase {
            Phase::GiveBack => {}
            Phase::Begin if self.has_deleted => self.phase = Phase::GiveBack,
            _ => return Ok(None),
        }
        let Some(given) = admin.give_back_space().await? else {
            self.phase = Phase::Over;
            return Ok(None);
        };
        if given.is_done {
            self.phase = Phase::Over;
        }
        Ok(Some(RetentionReport {
            bytes_given_back: given.bytes,
            ..RetentionReport::default()
        }))
    }

    fn begin(&self, rule: &RetentionRule) -> Phase {
        if !rule.deletes_instances() {
            return Phase::BeginExecutions;
        }
        let mut query = all_of(rule).with_roots_only();
        query.statuses = if rule.statuses.is_empty() {
            vec![InstanceStatus::Completed, InstanceStatus::Failed]
        } else {
            rule.statuses.clone()
        };
        match rule.newest_kept {
            Some(left @ 1..) => Phase::PassOver { query, left },
            _ => Phase::Delete(Remaining::of(self.ended_in_time(rule, query))),
        }
    }

    async fn pass_over(
        &self,
        admin: &dyn ProviderAdmin,
        rule: &RetentionRule,
        query: InstanceQuery,
        left: u32,
    ) -> Result<Phase, ProviderError> {
        let query = query.with_page_size(left.min(PAGE_SIZE_MAX));
        let page = admin.query_instances(&query).await?;
        let left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        Ok(match next_page(query, &page) {
            None => Phase::BeginExecutions,
            Some(query) if left > 0 => Phase::PassOver { query, left },
            Some(query) => Phase::Delete(Remaining::of(self.ended_in_time(rule, query))),
        })
    }

    fn ended_in_time(&self, rule: &RetentionRule, mut query: InstanceQuery) -> InstanceQuery {
        query.ended.until_ms = Some(self.ended_before(rule));
        query
    }

    /// What ends later stays, whatever else the rule says: it was not there when the pass began.
    fn ended_before(&self, rule: &RetentionRule) -> u64 {
        let span = rule.ended_for.unwrap_or(Duration::ZERO);
        let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.saturating_sub(span)
    }

    async fn delete(
        &mut self,
        admin: &dyn ProviderAdmin,
        rule: &RetentionRule,
        found: &[InstanceSummary],
    ) -> Result<RetentionReport, ProviderError> {
        if self.is_preview || found.is_empty() {
            return Ok(RetentionReport {
                instances: found.len() as u64,
                ..RetentionReport::default()
            });
        }
        let ids = found.iter().map(|one| one.instance_id.clone());
        // The store looks again, in the transaction that deletes: another life of an id has not ended in time.
        let these = InstanceFilter {
            instance_ids: Some(ids.collect()),
            completed_before: Some(self.ended_before(rule)),
            limit: Some(u32::MAX),
        };
        let deleted = match admin.delete_instance_bulk(these.clone()).await {
            Err(error) => {
                self.failures.is_of_one(admin, &error).await?;
                tracing::debug!(target: "duroxide::runtime", %error, "retention goes on instance by instance");
                one_by_one(admin, &these, &mut self.failures).await?
            }
            Ok(deleted) => deleted,
        };
        Ok(RetentionReport {
            instances: deleted.instances_deleted,
            executions: deleted.executions_deleted,
            events: deleted.events_deleted,
            bytes_given_back: 0,
        })
    }

    async fn prune(
        &mut self,
        admin: &dyn ProviderAdmin,
        rule: &RetentionRule,
        found: &[InstanceSummary],
    ) -> Result<RetentionReport, ProviderError> {
        let kept = rule.executions_kept.unwrap_or(u32::MAX);
        let mut done = RetentionReport::default();
        for one in found
            .iter()
            .filter(|one| one.execution_id > u64::from(kept))
        {
            let id = &one.instance_id;
            let pruned = if self.is_preview {
                would_prune(admin, id, kept).await
            } else {
                prune_one(admin, id, kept).await
            };
            match pruned {
                Ok(pruned) => {
                    self.failures.end();
                    done.add(pruned);
                }
                Err(error) => {
                    self.failures.is_of_one(admin, &error).await?;
                    tracing::warn!(target: "duroxide::runtime", instance_id = %id, %error, "retention could not prune this instance");
                }
            }
        }
        Ok(done)
    }

    fn next_rule(&mut self) -> Phase {
        self.rule += 1;
        Phase::Begin
    }
}

/// Prunes one instance; nothing if it was deleted meanwhile.
async fn prune_one(
    admin: &dyn ProviderAdmin,
    id: &str,
    kept: u32,
) -> Result<RetentionReport, ProviderError> {
    let options = PruneOptions {
        keep_last: Some(kept),
        completed_before: None,
    };
    let mut pruned = admin.prune_executions(id, options.clone()).await;
    if pruned.as_ref().is_err_and(ProviderError::is_retryable) {
        // It may have shared a transaction with what failed.
        pruned = admin.prune_executions(id, options).await;
    }
    match pruned {
        Ok(pruned) => Ok(RetentionReport {
            executions: pruned.executions_deleted,
            events: pruned.events_deleted,
            ..RetentionReport::default()
        }),
        Err(error) if error.refusal_about(id) == Some(RefusalKind::InstanceNotFound) => {
            Ok(RetentionReport::default())
        }
        Err(error) => Err(error),
    }
}

/// What pruning one instance would delete.
async fn would_prune(
    admin: &dyn ProviderAdmin,
    id: &str,
    kept: u32,
) -> Result<RetentionReport, ProviderError> {
    let executions = admin.list_executions(id).await?.len() as u64;
    Ok(RetentionReport {
        executions: executions.saturating_sub(u64::from(kept)),
        ..RetentionReport::default()
    })
}

/// One that cannot be deleted costs only itself: it is named in the log, and stays.
async fn one_by_one(
    admin: &dyn ProviderAdmin,
    these: &InstanceFilter,
    failures: &mut Failures,
) -> Result<DeleteInstanceResult, ProviderError> {
    let mut total = DeleteInstanceResult::default();
    for id in these.instance_ids.iter().flatten() {
        let this = InstanceFilter {
            instance_ids: Some(vec![id.clone()]),
            ..these.clone()
        };
        match admin.delete_instance_bulk(this).await {
            Ok(deleted) => {
                failures.end();
                total.instances_deleted += deleted.instances_deleted;
                total.executions_deleted += deleted.executions_deleted;
                total.events_deleted += deleted.events_deleted;
            }
            Err(error) => {
                failures.is_of_one(admin, &error).await?;
                tracing::warn!(target: "duroxide::runtime", instance_id = %id, %error, "retention could not delete this instance");
            }
        }
    }
    Ok(total)
}

/// All instances that a rule is about, newest first: their order does not change while others go.
fn all_of(rule: &RetentionRule) -> InstanceQuery {
    let mut query = InstanceQuery::new().sorted(SortKey::Created, SortOrder::NewestFirst);
    query.name.clone_from(&rule.name);
    query
}

fn next_page(query: InstanceQuery, page: &Page<InstanceSummary>) -> Option<InstanceQuery> {
    page.next.clone().map(|next| query.after(next))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use duroxide::providers::sqlite::SqliteProvider;
    use duroxide_core::OrchestrationContext;
    use duroxide_core::clock::{Clock, SystemClock};
    use duroxide_core::event::Event;
    use duroxide_core::provider::{
        ExecutionInfo, InstanceInfo, Provider, PruneResult, QueueDepths, SystemMetrics,
    };

    use super::*;
    use crate::registry::{ActivityRegistry, OrchestrationRegistry};
    use crate::{Client, Runtime};

    async fn run(client: &Client, id: &str) {
        client.start_orchestration(id, "echo", "").await.unwrap();
        let wait = client.wait_for_orchestration(id, Duration::from_secs(20));
        wait.await.unwrap();
    }

    #[tokio::test]
    async fn a_life_of_an_id_that_ended_after_the_pass_began_stays() {
        let store: Arc<dyn Provider> = Arc::new(SqliteProvider::new_in_memory().await.unwrap());
        let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
        let code = OrchestrationRegistry::builder()
            .register("echo", echo)
            .build();
        let work = ActivityRegistry::builder().build();
        let runtime = Runtime::start_with_store(Arc::clone(&store), work, code).await;
        let client = Client::new(Arc::clone(&store));
        for n in 0..=STEP {
            run(&client, &format!("i{n:02}")).await;
        }
        let admin = store.as_management_capability().unwrap();
        let begun = SystemClock.now_ms();
        while SystemClock.now_ms() <= begun {
            tokio::task::yield_now().await;
        }
        let everything = RetentionRule {
            newest_kept: Some(0),
            ..RetentionRule::default()
        };
        let policy = RetentionPolicy::new().rule(everything);
        let mut sweep = Sweep::new(policy, begun + 1);
        let mut deleted = 0;
        while deleted == 0 {
            let done = sweep.step(admin).await.unwrap().expect("not over");
            deleted = done.instances;
        }
        assert_eq!(deleted, STEP as u64, "all but the oldest");
        // The pass has read of its earlier life.
        client.delete_instance("i00", false).await.unwrap();
        run(&client, "i00").await;
        while sweep.step(admin).await.unwrap().is_some() {}
        assert_eq!(admin.list_instances().await.unwrap(), ["i00"]);
        runtime.shutdown(None).await;
    }

    /// A store that cannot prune some of its instances.
    struct Unprunable {
        store: Arc<SqliteProvider>,
        ids: Vec<String>,
        is_out_of_reach: AtomicBool,
    }

    impl Unprunable {
        async fn of(ids: &[&str]) -> Self {
            Self {
                store: Arc::new(SqliteProvider::new_in_memory().await.unwrap()),
                ids: ids.iter().map(|id| (*id).to_owned()).collect(),
                is_out_of_reach: AtomicBool::new(false),
            }
        }

        fn whole(&self) -> &dyn ProviderAdmin {
            self.store.as_management_capability().unwrap()
        }
    }

    type Answer<T> = Result<T, ProviderError>;

    #[async_trait::async_trait]
    impl ProviderAdmin for Unprunable {
        async fn list_instances(&self) -> Answer<Vec<String>> {
            self.whole().list_instances().await
        }

        async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
            self.whole().list_instances_by_status(status).await
        }

        async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
            self.whole().list_executions(instance).await
        }

        async fn read_history_with_execution_id(
            &self,
            instance: &str,
            execution_id: u64,
        ) -> Answer<Vec<Event>> {
            let whole = self.whole();
            whole
                .read_history_with_execution_id(instance, execution_id)
                .await
        }

        async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
            self.whole().read_history(instance).await
        }

        async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
            self.whole().latest_execution_id(instance).await
        }

        async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
            self.whole().get_instance_info(instance).await
        }

        async fn get_execution_info(&self, instance: &str, id: u64) -> Answer<ExecutionInfo> {
            self.whole().get_execution_info(instance, id).await
        }

        async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
            self.whole().get_system_metrics().await
        }

        async fn get_queue_depths(&self) -> Answer<QueueDepths> {
            self.whole().get_queue_depths().await
        }

        async fn list_children(&self, instance: &str) -> Answer<Vec<String>> {
            self.whole().list_children(instance).await
        }

        async fn get_parent_id(&self, instance: &str) -> Answer<Option<String>> {
            self.whole().get_parent_id(instance).await
        }

        async fn delete_instances_atomic(
            &self,
            ids: &[String],
            force: bool,
        ) -> Answer<DeleteInstanceResult> {
            self.whole().delete_instances_atomic(ids, force).await
        }

        async fn delete_instance_bulk(
            &self,
            filter: InstanceFilter,
        ) -> Answer<DeleteInstanceResult> {
            self.whole().delete_instance_bulk(filter).await
        }

        async fn prune_executions(&self, id: &str, options: PruneOptions) -> Answer<PruneResult> {
            if self.ids.iter().any(|one| one == id) {
                return Err(ProviderError::retryable(
                    "prune_executions",
                    "a damaged page",
                ));
            }
            self.whole().prune_executions(id, options).await
        }

        async fn prune_executions_bulk(
            &self,
            filter: InstanceFilter,
            options: PruneOptions,
        ) -> Answer<PruneResult> {
            self.whole().prune_executions_bulk(filter, options).await
        }

        async fn closed_because(&self) -> Answer<Option<String>> {
            if self.is_out_of_reach.load(Ordering::SeqCst) {
                return Err(ProviderError::retryable("closed_because", "no answer"));
            }
            self.whole().closed_because().await
        }
    }

    /// Instances with three executions each.
    async fn loops(store: &Arc<SqliteProvider>, ids: &[&str]) {
        let store: Arc<dyn Provider> = Arc::clone(store) as _;
        let code = |ctx: OrchestrationContext, input: String| async move {
            match input.as_str() {
                "2" => Ok(input),
                "1" => ctx.continue_as_new("2").await,
                _ => ctx.continue_as_new("1").await,
            }
        };
        let code = OrchestrationRegistry::builder()
            .register("echo", code)
            .build();
        let work = ActivityRegistry::builder().build();
        let runtime = Runtime::start_with_store(Arc::clone(&store), work, code).await;
        let client = Client::new(store);
        for id in ids {
            run(&client, id).await;
        }
        runtime.shutdown(None).await;
    }

    fn keep_one_execution() -> Sweep {
        let rule = RetentionRule {
            executions_kept: Some(1),
            ..RetentionRule::default()
        };
        Sweep::new(RetentionPolicy::new().rule(rule), SystemClock.now_ms())
    }

    #[tokio::test]
    async fn an_instance_that_cannot_be_pruned_keeps_no_other_from_it() {
        let admin = Unprunable::of(&["hit"]).await;
        loops(&admin.store, &["a", "hit", "z"]).await;
        let mut sweep = keep_one_execution();
        while sweep.step(&admin).await.unwrap().is_some() {}
        for (id, left) in [("a", 1), ("hit", 3), ("z", 1)] {
            let executions = admin.list_executions(id).await.unwrap();
            assert_eq!(executions.len(), left, "{id}");
        }
    }

    #[tokio::test]
    async fn a_store_that_is_out_of_reach_ends_the_pass() {
        let admin = Unprunable::of(&["hit"]).await;
        loops(&admin.store, &["a", "hit"]).await;
        admin.is_out_of_reach.store(true, Ordering::SeqCst);
        let mut sweep = keep_one_execution();
        let ended = loop {
            match sweep.step(&admin).await {
                Ok(Some(_)) => {}
                ended => break ended,
            }
        };
        assert!(ended.unwrap_err().is_retryable());
    }
}
