//! What the view shows, at one moment. In: a client. Out: numbers and short lists. Rates and times are those of the
//! last minute, read from the store, so that the first sample is as good as any.

use std::time::{SystemTime, UNIX_EPOCH};

use duroxide_core::provider::{
    CountBy, InstanceQuery, InstanceStatus, InstanceSummary, SeenNode, SortKey, SortOrder,
    TimeRange,
};
use duroxide_runtime::client::Client;
use serde_json::{Value, json};

use crate::failure::Failure;

/// What "lately" means.
const WINDOW_MS: u64 = 60_000;
/// How many instances a list shows.
const LISTED: u32 = 20;
/// From how many ends the usual duration is computed.
const ENDS: u32 = 500;

#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) running: u64,
    pub(super) failed: u64,
    pub(super) started_per_s: f64,
    pub(super) completed_per_s: f64,
    pub(super) failed_per_s: f64,
    /// Time from creation to end.
    pub(super) p50_ms: Option<u64>,
    pub(super) p99_ms: Option<u64>,
    pub(super) messages: usize,
    pub(super) activities: usize,
    pub(super) timers: usize,
    pub(super) dead_letters: u64,
    /// Those that run longest.
    pub(super) slowest: Vec<InstanceSummary>,
    /// Those that failed last.
    pub(super) failing: Vec<InstanceSummary>,
    pub(super) nodes: Vec<SeenNode>,
    /// Why the sample is not newer.
    pub(super) trouble: Option<String>,
}

impl Sample {
    pub(super) async fn take(client: &Client) -> Result<Self, Failure> {
        let lately = TimeRange {
            from_ms: Some(now_ms().saturating_sub(WINDOW_MS)),
            until_ms: None,
        };
        let of = |statuses: &[InstanceStatus]| {
            let mut query = InstanceQuery::new();
            query.statuses = statuses.to_vec();
            query
        };
        let count = async |query: InstanceQuery| -> Result<u64, Failure> {
            let counts = client.count_instances(&query, CountBy::Nothing).await?;
            Ok(counts.first().map_or(0, |one| one.count))
        };
        let page = async |query: InstanceQuery| -> Result<Vec<InstanceSummary>, Failure> {
            Ok(client.query_instances(&query).await?.items)
        };
        let per_s = |count: u64| count as f64 * 1_000.0 / WINDOW_MS as f64;
        let running = [InstanceStatus::Running, InstanceStatus::ContinuedAsNew];
        let ended = |statuses: &[InstanceStatus]| {
            let mut query = of(statuses);
            query.ended = lately;
            // What ended lately was updated lately; stores have that in an index.
            query.updated = lately;
            query
        };
        let mut started = InstanceQuery::new();
        started.created = lately;
        let ends = [InstanceStatus::Completed, InstanceStatus::Failed];
        let ends = ended(&ends).sorted(SortKey::Updated, SortOrder::NewestFirst);
        let (p50_ms, p99_ms) = times(&page(ends.with_page_size(ENDS)).await?);
        let depths = client.get_queue_depths().await?;
        let slowest = of(&running).sorted(SortKey::Created, SortOrder::OldestFirst);
        let failing =
            of(&[InstanceStatus::Failed]).sorted(SortKey::Updated, SortOrder::NewestFirst);
        Ok(Self {
            running: count(of(&running)).await?,
            failed: count(of(&[InstanceStatus::Failed])).await?,
            started_per_s: per_s(count(started).await?),
            completed_per_s: per_s(count(ended(&[InstanceStatus::Completed])).await?),
            failed_per_s: per_s(count(ended(&[InstanceStatus::Failed])).await?),
            p50_ms,
            p99_ms,
            messages: depths.orchestrator_queue,
            activities: depths.worker_queue,
            timers: depths.timer_queue,
            dead_letters: client.count_dead_letters().await?,
            slowest: page(slowest.with_page_size(LISTED)).await?,
            failing: page(failing.with_page_size(LISTED)).await?,
            nodes: client.nodes().await?.unwrap_or_default(),
            trouble: None,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "running": self.running, "failed": self.failed,
            "started_per_s": self.started_per_s, "completed_per_s": self.completed_per_s,
            "failed_per_s": self.failed_per_s, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms,
            "orchestrator_queue": self.messages, "worker_queue": self.activities, "timers": self.timers,
            "dead_letters": self.dead_letters, "slowest": self.slowest, "failing": self.failing,
            "nodes": self.nodes,
        })
    }
}

/// The median and the 99th percentile of how long these took.
fn times(ended: &[InstanceSummary]) -> (Option<u64>, Option<u64>) {
    let took = |one: &InstanceSummary| Some(one.ended_at_ms?.saturating_sub(one.created_at_ms));
    let mut took: Vec<u64> = ended.iter().filter_map(took).collect();
    took.sort_unstable();
    let at = |percent: usize| {
        let place = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(place).copied()
    };
    (at(50), at(99))
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
