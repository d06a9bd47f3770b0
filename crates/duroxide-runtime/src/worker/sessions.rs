//! Sessions of this runtime: how many are busy, which slot serves which, and keeping their leases.
//!
//! With a stable node id all slots serve a session at once. Without one a session belongs to one slot: its activities
//! run there one after the other, and those that wait take no slot from other activities.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{ProviderError, SessionFetchConfig};
use lru::LruCache;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::claimed::ClaimedActivity;
use crate::engine::Engine;
use crate::options::renewal_interval;

/// Activities of one session that wait here for their turn; more stay in the store.
const WAITING_MAX: usize = 256;
/// Sessions whose slot is remembered while none of their activities runs.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");

/// Tries in what is left of a lease when its renewal is due.
const TRIES: u32 = 5;
/// Between two tries, however short the lease is.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// A session with activities in this runtime.
#[derive(Default)]
struct Session {
    running: usize,
    waiting: VecDeque<ClaimedActivity>,
}

/// Sessions this runtime serves.
pub(super) struct Sessions {
    busy: Mutex<HashMap<String, Session>>,
    slots: Mutex<LruCache<String, usize>>,
    /// Fires when the first session is served here; until then there is nothing to renew.
    first: CancellationToken,
}

/// What becomes of an activity that belongs to a session.
pub(super) enum Admission {
    /// It runs now.
    Run(ClaimedActivity, Place),
    /// It runs after the others of its session.
    Waits,
    /// There is no room for it here.
    Full(ClaimedActivity),
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            busy: Mutex::default(),
            slots: Mutex::new(LruCache::new(REMEMBERED)),
            first: CancellationToken::new(),
        }
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more sessions may be served.
    pub(super) fn room(&self, engine: &Engine) -> usize {
        let busy = self.busy().len();
        engine.options.max_sessions_per_runtime.saturating_sub(busy)
    }

    /// What to ask the store for: session-bound work only while another session may be served.
    pub(super) fn config(&self, engine: &Engine) -> Option<SessionFetchConfig> {
        (self.room(engine) > 0).then(|| SessionFetchConfig {
            owner_id: owner(engine),
            lock_timeout: engine.options.session_lock_timeout,
        })
    }

    /// Finds an activity its place.
    pub(super) fn admit(
        self: &Arc<Self>,
        engine: &Engine,
        id: &str,
        work: ClaimedActivity,
    ) -> Admission {
        let mut busy = self.busy();
        if !busy.contains_key(id) && busy.len() >= engine.options.max_sessions_per_runtime {
            return Admission::Full(work);
        }
        self.first.cancel();
        let session = busy.entry(id.to_owned()).or_default();
        let mut one_at_a_time = engine.options.worker_node_id.is_none();
        one_at_a_time &= !Defect::SessionRunsTwice.is_on();
        if one_at_a_time && session.running > 0 {
            if session.waiting.len() >= WAITING_MAX {
                return Admission::Full(work);
            }
            session.waiting.push_back(work);
            return Admission::Waits;
        }
        session.running += 1;
        let place = Place {
            sessions: Arc::clone(self),
            id: id.to_owned(),
            one_at_a_time,
            left: false,
        };
        Admission::Run(work, place)
    }
}

/// The right to run activities of a session.
pub(super) struct Place {
    sessions: Arc<Sessions>,
    id: String,
    one_at_a_time: bool,
    left: bool,
}

impl Place {
    /// The slot an activity of the session runs under: always the same one, if the session belongs to one slot.
    pub(super) fn slot(&self, taken: usize) -> usize {
        if !self.one_at_a_time {
            return taken;
        }
        let mut slots = self
            .sessions
            .slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *slots.get_or_insert(self.id.clone(), || taken)
    }

    /// The next activity of the session; gives the place up if there is none.
    pub(super) fn next(mut self) -> Option<(ClaimedActivity, Self)> {
        // One lock for both, so that nothing can begin to wait for a place that is being given up.
        let mut busy = self.sessions.busy();
        let waiting = busy.get_mut(&self.id).and_then(|s| s.waiting.pop_front());
        if waiting.is_none() {
            leave(&mut busy, &self.id);
            self.left = true;
        }
        drop(busy);
        waiting.map(|work| (work, self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.left {
            leave(&mut self.sessions.busy(), &self.id);
        }
    }
}

fn leave(busy: &mut HashMap<String, Session>, id: &str) {
    if let Some(session) = busy.get_mut(id) {
        session.running = session.running.saturating_sub(1);
        if session.running == 0 {
            busy.remove(id);
        }
    }
}

/// Who owns the sessions this runtime serves.
fn owner(engine: &Engine) -> String {
    engine
        .options
        .worker_node_id
        .clone()
        .unwrap_or_else(|| format!("work-{}", engine.runtime_id))
}

/// Renews the sessions of this runtime and sweeps those without an owner. Goes on while a shutdown lets activities
/// finish: their sessions must not move meanwhile.
pub(super) async fn keep_sessions(engine: Arc<Engine>, sessions: Arc<Sessions>) {
    let renew_every = renewal_interval(
        engine.options.session_lock_timeout,
        engine.options.session_lock_renewal_buffer,
    );
    let lease = engine.options.session_lock_timeout;
    // What is left of the lease when a renewal is due, for several tries: another node takes the session at its end.
    let left = lease.saturating_sub(renew_every).max(SHORTEST_PAUSE);
    let mut renew = tokio::time::interval(renew_every);
    let mut sweep = tokio::time::interval(engine.options.session_cleanup_interval);
    renew.reset();
    sweep.reset();
    let owner = owner(&engine);
    let store = engine.store_of_keepers();
    loop {
        let idle = engine.options.session_idle_timeout;
        tokio::select! {
            biased;
            () = engine.abort.cancelled() => return,
            () = sessions.first.cancelled(), if !sessions.first.is_cancelled() => renew.reset(),
            _ = renew.tick(), if sessions.first.is_cancelled() => {
                let owners = [owner.as_str()];
                let call = store.renew_session_lock(&owners, lease, idle);
                if let Err(error) = in_time(left, call).await {
                    tracing::warn!(target: "duroxide::runtime::worker", %error, "renewing sessions failed");
                    renew.reset_after((left / TRIES).max(SHORTEST_PAUSE));
                }
            }
            _ = sweep.tick(), if !engine.stop.is_cancelled() => {
                let call = store.cleanup_orphaned_sessions(idle);
                if let Err(error) = in_time(lease, call).await {
                    tracing::warn!(target: "duroxide::runtime::worker", %error, "sweeping sessions failed");
                }
            }
        }
    }
}

/// A call that never answers must not end the keeping of sessions.
async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let no_answer = |_| Err(ProviderError::retryable("sessions", "no answer in time"));
    timeout(limit, call).await.unwrap_or_else(no_answer)
}
