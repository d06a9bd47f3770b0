//! Changing code that has running instances, one place at a time.

use std::panic::Location;

use super::OrchestrationContext;
use crate::attempt::AttemptLimits;
use crate::durable::{CommandKind, OperationKind, SYSCALL_PATCHED};

impl OrchestrationContext {
    /// Whether this execution takes the new way. True for executions that come here for the first time with this code;
    /// the answer is recorded. False for those that passed this place before the code knew the patch. One id has one
    /// answer in an execution, however often it is asked.
    ///
    /// ```
    /// use duroxide_core::{ActivityRef, OrchestrationContext};
    ///
    /// const CHECK: ActivityRef<u64, ()> = ActivityRef::new("check");
    /// const CHARGE: ActivityRef<u64, String> = ActivityRef::new("charge");
    ///
    /// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
    ///     if ctx.patched("fraud-check") {
    ///         ctx.call(CHECK, &cents).await?;
    ///     }
    ///     Ok(ctx.call(CHARGE, &cents).await?)
    /// }
    /// ```
    ///
    /// When no execution without the patch is left, write [`deprecate_patch`](Self::deprecate_patch) instead of the
    /// condition; when none is left at all that has it recorded, or at any time after that, remove the line.
    #[track_caller]
    #[must_use]
    pub fn patched(&self, id: &str) -> bool {
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        if let Some(known) = cell.patches.get(id) {
            return *known;
        }
        let taken = !cell.replaying || cell.recorded_patches.contains(id);
        cell.patches.insert(id.to_owned(), taken);
        if taken {
            let kind = CommandKind::Activity {
                name: SYSCALL_PATCHED.to_owned(),
                input: id.to_owned(),
                session_id: None,
                tag: None,
                attempt_of: None,
                limits: AttemptLimits::default(),
            };
            // No future awaits it: the host answers within the turn.
            cell.call(OperationKind::Activity, kind, location);
        }
        taken
    }

    /// Says that every execution takes the new way. Records nothing; replay passes over what
    /// [`patched`](Self::patched) recorded, also when this line is gone.
    #[track_caller]
    pub fn deprecate_patch(&self, id: &str) {
        let mut cell = self.shared.deciding(Location::caller());
        cell.patches.insert(id.to_owned(), true);
    }
}
