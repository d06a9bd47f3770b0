//! What the store holds. In: one locked step at a time. Out: rows. Times are milliseconds on the store's clock.

use std::collections::{BTreeMap, HashMap};

use duroxide_core::WorkItem;
use duroxide_core::provider::{KvEntry, ProviderError};
use semver::Version;

pub(crate) type Result<T> = std::result::Result<T, ProviderError>;

#[derive(Default)]
pub(crate) struct State {
    rows: u64,
    pub(crate) instances: BTreeMap<String, Instance>,
    pub(crate) executions: BTreeMap<(String, u64), Execution>,
    /// The orchestrator queue, by row: enqueue order.
    pub(crate) messages: BTreeMap<u64, Message>,
    /// At most one lease per instance.
    pub(crate) leases: HashMap<String, Lease>,
    /// The worker queue, by row: enqueue order.
    pub(crate) activities: BTreeMap<u64, Activity>,
    pub(crate) sessions: HashMap<String, Session>,
}

pub(crate) struct Instance {
    pub(crate) row: u64,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) execution: u64,
    pub(crate) parent: Option<String>,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    pub(crate) custom_status: Option<String>,
    pub(crate) custom_status_version: u64,
    /// Key-values as finished executions left them.
    pub(crate) kv_base: BTreeMap<String, KvEntry>,
    /// Changes of the running execution; `None` hides a key.
    pub(crate) kv_delta: BTreeMap<String, Option<KvEntry>>,
}

pub(crate) struct Execution {
    pub(crate) status: String,
    pub(crate) output: Option<String>,
    pub(crate) started_at: u64,
    pub(crate) completed_at: Option<u64>,
    pub(crate) pinned: Option<Version>,
    /// Events as JSON, by id.
    pub(crate) events: BTreeMap<u64, String>,
}

pub(crate) struct Message {
    pub(crate) instance: String,
    pub(crate) item: WorkItem,
    pub(crate) visible_at: u64,
    pub(crate) attempts: u32,
    /// The claim that saw this message last.
    pub(crate) token: Option<String>,
}

pub(crate) struct Lease {
    pub(crate) token: String,
    pub(crate) until: u64,
}

pub(crate) struct Activity {
    pub(crate) item: WorkItem,
    pub(crate) visible_at: u64,
    pub(crate) attempts: u32,
    pub(crate) token: Option<String>,
    pub(crate) locked_until: u64,
}

pub(crate) struct Session {
    pub(crate) owner: String,
    pub(crate) locked_until: u64,
    pub(crate) last_activity_at: u64,
}

impl Execution {
    pub(crate) fn begun(now: u64) -> Self {
        Self {
            status: "Running".into(),
            output: None,
            started_at: now,
            completed_at: None,
            pinned: None,
            events: BTreeMap::new(),
        }
    }
}

impl State {
    /// Row numbers only grow, so their order is the order of enqueueing.
    pub(crate) fn next_row(&mut self) -> u64 {
        self.rows += 1;
        self.rows
    }

    pub(crate) fn send(&mut self, item: WorkItem, visible_at: u64) {
        let message = Message {
            instance: item.target_instance().to_owned(),
            item,
            visible_at,
            attempts: 0,
            token: None,
        };
        let row = self.next_row();
        self.messages.insert(row, message);
    }

    pub(crate) fn schedule(&mut self, item: WorkItem, now: u64) {
        let activity = Activity {
            item,
            visible_at: now,
            attempts: 0,
            token: None,
            locked_until: 0,
        };
        let row = self.next_row();
        self.activities.insert(row, activity);
    }

    /// The highest execution that exists.
    pub(crate) fn latest(&self, instance: &str) -> Option<u64> {
        let all = self
            .executions
            .range((instance.to_owned(), 0)..=(instance.to_owned(), u64::MAX));
        all.last().map(|((_, execution), _)| *execution)
    }

    pub(crate) fn execution(&self, instance: &str, execution: u64) -> Option<&Execution> {
        self.executions.get(&(instance.to_owned(), execution))
    }

    /// The execution that an instance is in.
    pub(crate) fn current(&self, instance: &str) -> Option<&Execution> {
        let row = self.instances.get(instance)?;
        self.execution(instance, row.execution)
    }
}

/// A new, unpredictable token.
pub(crate) fn new_token() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub(crate) fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn lost(operation: &str) -> ProviderError {
    ProviderError::lease_lost(operation, "nobody holds it")
}
