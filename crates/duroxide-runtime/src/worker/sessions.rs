//! Sessions of this runtime: how many are busy, which slot serves which, and keeping their leases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::SessionFetchConfig;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::options::renewal_interval;

/// A session served here: how many of its activities run, and the lane they queue in.
#[derive(Default)]
struct Session {
    in_flight: usize,
    lane: Arc<AsyncMutex<()>>,
    worker_slot: Option<usize>,
}

/// Sessions this runtime serves.
#[derive(Default)]
pub(super) struct Sessions {
    busy: Mutex<HashMap<String, Session>>,
    /// Fires when the first session is served here; until then there is nothing to renew.
    first: CancellationToken,
}

/// An activity's place in its session.
pub(super) struct InSession {
    sessions: Arc<Sessions>,
    id: String,
    /// The slot that serves the session, if it belongs to one slot.
    pub(super) worker_slot: Option<usize>,
    _lane: Option<OwnedMutexGuard<()>>,
}

impl Sessions {
    fn busy(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to ask the store for: session-bound work only while another session may be served.
    pub(super) fn config(&self, engine: &Engine) -> Option<SessionFetchConfig> {
        let room = self.busy().len() < engine.options.max_sessions_per_runtime;
        room.then(|| SessionFetchConfig {
            owner_id: owner(engine),
            lock_timeout: engine.options.session_lock_timeout,
        })
    }

    /// Counts an activity in; `None` if its session would be one too many.
    pub(super) fn admit(self: &Arc<Self>, engine: &Engine, id: &str) -> Option<Admitted> {
        let mut busy = self.busy();
        if !busy.contains_key(id) && busy.len() >= engine.options.max_sessions_per_runtime {
            return None;
        }
        self.first.cancel();
        let session = busy.entry(id.to_owned()).or_default();
        session.in_flight += 1;
        Some(Admitted {
            sessions: Arc::clone(self),
            id: id.to_owned(),
            lane: Arc::clone(&session.lane),
        })
    }
}

/// An activity that was counted in and waits for its turn.
pub(super) struct Admitted {
    sessions: Arc<Sessions>,
    id: String,
    lane: Arc<AsyncMutex<()>>,
}

impl Admitted {
    /// Enters the session. Without a stable node id a session belongs to one slot, and its activities run one after
    /// the other under that slot's name; with one, all slots serve it at once.
    pub(super) async fn enter(self, engine: &Engine, slot: usize) -> InSession {
        let lane = match engine.options.worker_node_id {
            Some(_) => None,
            None => Some(Arc::clone(&self.lane).lock_owned().await),
        };
        let worker_slot = lane.is_some().then(|| {
            *self
                .sessions
                .busy()
                .entry(self.id.clone())
                .or_default()
                .worker_slot
                .get_or_insert(slot)
        });
        InSession {
            sessions: Arc::clone(&self.sessions),
            id: self.id.clone(),
            worker_slot,
            _lane: lane,
        }
    }
}

impl Drop for InSession {
    fn drop(&mut self) {
        let mut busy = self.sessions.busy();
        if let Some(session) = busy.get_mut(&self.id) {
            session.in_flight = session.in_flight.saturating_sub(1);
            if session.in_flight == 0 {
                busy.remove(&self.id);
            }
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

/// Renews the sessions of this runtime and sweeps those that nobody owns.
pub(super) async fn keep_sessions(engine: Arc<Engine>, sessions: Arc<Sessions>) {
    let renew_every = renewal_interval(
        engine.options.session_lock_timeout,
        engine.options.session_lock_renewal_buffer,
    );
    let mut renew = tokio::time::interval(renew_every);
    let mut sweep = tokio::time::interval(engine.options.session_cleanup_interval);
    renew.reset();
    sweep.reset();
    let owner = owner(&engine);
    loop {
        let idle = engine.options.session_idle_timeout;
        tokio::select! {
            () = engine.stop.cancelled() => return,
            () = sessions.first.cancelled(), if !sessions.first.is_cancelled() => renew.reset(),
            _ = renew.tick(), if sessions.first.is_cancelled() => {
                let lease = engine.options.session_lock_timeout;
                if let Err(error) = engine.store.renew_session_lock(&[owner.as_str()], lease, idle).await {
                    tracing::warn!(target: "duroxide::runtime::worker", %error, "renewing sessions failed");
                }
            }
            _ = sweep.tick() => {
                if let Err(error) = engine.store.cleanup_orphaned_sessions(idle).await {
                    tracing::warn!(target: "duroxide::runtime::worker", %error, "sweeping sessions failed");
                }
            }
        }
    }
}
