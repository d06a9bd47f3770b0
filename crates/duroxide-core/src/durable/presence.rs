//! Whether the engine drives an execution on this very thread. What reaches an orchestration from anywhere else is not
//! recorded and would differ in replay: it is reported, and never changes what the code decides.

use std::cell::Cell as Slot;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::identity::Identity;

thread_local! {
    /// The execution that the engine drives on this thread; 0 for none.
    static DRIVEN: Slot<u64> = const { Slot::new(0) };
}

/// The next execution's number within this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

type OnForeign = Arc<dyn Fn() + Send + Sync>;

/// Tells the engine's own calls from foreign ones.
pub(crate) struct Presence {
    /// 0 for a context of its own, which no engine drives and any thread may call.
    id: u64,
    identity: Arc<Identity>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Where the code last asked for something.
    last_call: Option<&'static Location<'static>>,
    /// The first thing that came from elsewhere.
    foreign: Option<String>,
    on_foreign: Option<OnForeign>,
}

impl Seen {
    fn place(&self) -> String {
        let place = |at| format!("\n  last durable call: {at}");
        self.last_call.map(place).unwrap_or_default()
    }
}

impl Presence {
    pub(crate) fn driven(identity: Arc<Identity>) -> Self {
        Self::new(NEXT.fetch_add(1, Ordering::Relaxed), identity)
    }

    pub(crate) fn of_nobody(identity: Arc<Identity>) -> Self {
        Self::new(0, identity)
    }

    fn new(id: u64, identity: Arc<Identity>) -> Self {
        Self {
            id,
            identity,
            seen: Mutex::default(),
        }
    }

    /// Marks this thread as the one that drives the execution, until the guard is dropped.
    pub(crate) fn enter(&self) -> Driving {
        Driving(DRIVEN.replace(self.id))
    }

    /// Whether the engine drives the execution on this thread.
    pub(crate) fn is_here(&self) -> bool {
        // A thread that is being torn down drives nothing.
        self.id == 0 || DRIVEN.try_with(Slot::get) == Ok(self.id)
    }

    pub(crate) fn called_at(&self, location: &'static Location<'static>) {
        self.seen().last_call = Some(location);
    }

    /// Notes something that came from elsewhere, says so in the log, and calls the engine's hook. The first one counts.
    pub(crate) fn report(&self, what: &str) {
        let mut seen = self.seen();
        if seen.foreign.is_some() {
            return;
        }
        let report = format!("{what}{}", seen.place());
        seen.foreign = Some(report.clone());
        let on_foreign = seen.on_foreign.clone();
        drop(seen);
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %self.identity.instance_id,
            execution_id = self.identity.execution_id,
            orchestration_name = %self.identity.name,
            "{report}"
        );
        if let Some(notify) = on_foreign {
            notify();
        }
    }

    /// A report with the line of the last durable call, if there was one.
    pub(crate) fn placed(&self, what: &str) -> String {
        format!("{what}{}", self.seen().place())
    }

    /// What came from elsewhere, if anything did.
    pub(crate) fn foreign(&self) -> Option<String> {
        self.seen().foreign.clone()
    }

    /// Calls `notify` when a foreign wake-up or call comes, and at once if one came already.
    pub(crate) fn on_foreign(&self, notify: OnForeign) {
        let mut seen = self.seen();
        if seen.foreign.is_none() {
            seen.on_foreign = Some(notify);
        } else {
            drop(seen);
            notify();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread drives an execution while this lives.
pub(crate) struct Driving(u64);

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVEN.set(self.0);
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What an author reads whose orchestration was woken by something else than its history.
pub(crate) const WOKEN: &str = "the orchestration waits for something that is not durable and was woken by it (for example a tokio timer, a channel, I/O or a spawned task); no replay can repeat that: use an activity, ctx.sleep or an event instead";
/// What an author reads whose context other code used.
pub(crate) const CALLED: &str = "the context of an orchestration was used outside its own code (for example in a spawned task or on another thread); no replay can repeat that: call it from the orchestration itself and use an activity for work beside it";
/// What an author reads whose durable future other code polled.
pub(crate) const POLLED: &str = "a durable future was polled outside its orchestration (for example in a spawned task); no replay can repeat that: await it in the orchestration itself";
/// What an author reads whose durable future other code dropped.
pub(crate) const DROPPED: &str = "a durable future was dropped outside its orchestration (for example in a spawned task); no replay can repeat that: keep it in the orchestration itself";
