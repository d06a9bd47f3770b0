//! Code: what this node has, and what it was asked for and does not have. In: registries, and instances that came here
//! without their code being here. Out: what claims say, and whether to log a missing handler (once per name).

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::{HandlerKind, Incarnation, OrchestrationHandlers, ReadyWork};
use lru::LruCache;
use tokio::time::Instant;

use crate::registry::{ActivityRegistry, OrchestrationRegistry};

/// What a node has code for.
pub(crate) struct CodeHere {
    pub(super) orchestrations: Arc<OrchestrationHandlers>,
    pub(super) activities: Arc<BTreeSet<String>>,
}

impl CodeHere {
    pub(crate) fn of(
        orchestrations: &OrchestrationRegistry,
        activities: &ActivityRegistry,
    ) -> Self {
        let mut handlers = OrchestrationHandlers::default();
        for name in orchestrations.list_names() {
            for version in orchestrations.list_versions(&name) {
                handlers = handlers.with(name.clone(), version.to_string());
            }
        }
        Self {
            orchestrations: Arc::new(handlers),
            activities: Arc::new(activities.list_names().into_iter().collect()),
        }
    }

    /// The orchestrations, as name and version.
    pub(crate) fn orchestrations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.orchestrations.iter()
    }

    /// The activities, those of the engine included.
    pub(crate) fn activities(&self) -> impl Iterator<Item = &str> {
        self.activities.iter().map(String::as_str)
    }

    /// Whether this node can run the handler of some ready work.
    pub(crate) fn can_run(&self, work: &ReadyWork) -> bool {
        match work.kind {
            HandlerKind::Orchestration => self
                .orchestrations
                .starts(&work.name, work.version.as_deref()),
            HandlerKind::Activity => self.activities.contains(&work.name),
        }
    }
}

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// One life of an instance.
type InstanceKey = (String, Option<Incarnation>);

/// How often an instance came here without its code being here, and since when a request to cancel comes with it.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) times: u32,
    pub(crate) cancel_since: Option<Instant>,
}

/// Instances that were claimed here though their code is not.
pub(crate) struct CodeWanted {
    instances: Mutex<LruCache<InstanceKey, Seen>>,
    /// Handlers that were named in a warning already.
    warned: Mutex<LruCache<String, ()>>,
}

impl CodeWanted {
    pub(crate) fn new() -> Self {
        Self {
            instances: Mutex::new(LruCache::new(REMEMBERED)),
            warned: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// Notes that an instance came here, with a request to cancel or without.
    pub(crate) fn see(
        &self,
        instance: &str,
        incarnation: Option<Incarnation>,
        has_cancel_request: bool,
    ) -> Seen {
        let mut instances = lock(&self.instances);
        let seen = instances.get_or_insert_mut((instance.to_owned(), incarnation), || Seen {
            times: 0,
            cancel_since: None,
        });
        seen.times = seen.times.saturating_add(1);
        seen.cancel_since = if has_cancel_request {
            seen.cancel_since.or_else(|| Some(Instant::now()))
        } else {
            None
        };
        *seen
    }

    /// Whether this handler is missed for the first time here.
    pub(crate) fn is_first_miss(&self, handler: &str) -> bool {
        lock(&self.warned).put(handler.to_owned(), ()).is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
