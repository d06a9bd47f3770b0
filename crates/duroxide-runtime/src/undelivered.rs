//! Whether an instance can take a message. In: a store, an id. Out: why not, or nothing. Never sends.

use duroxide_core::Undelivered;
use duroxide_core::provider::{OutcomeStatus, Provider, ProviderError};

/// Why an instance of this id takes no messages; `None` if it runs, or may be about to start.
pub(crate) async fn undelivered(
    store: &dyn Provider,
    id: &str,
) -> Result<Option<Undelivered>, ProviderError> {
    let instance = id.to_owned();
    match store.read_outcome(id).await?.map(|one| one.status) {
        Some(OutcomeStatus::Running) => return Ok(None),
        Some(_) => return Ok(Some(Undelivered::Ended { instance })),
        None => {}
    }
    let Some(admin) = store.as_management_capability() else {
        return Ok(None);
    };
    // A store that cannot tell what is queued may have a start.
    let Some(pending) = admin.pending_work(id).await? else {
        return Ok(None);
    };
    if pending.messages.iter().any(|one| one.begins.is_some()) {
        return Ok(None);
    }
    // The start may have been taken up between the two looks.
    let known = store.read_outcome(id).await?.is_some();
    Ok((!known).then_some(Undelivered::NotFound { instance }))
}
