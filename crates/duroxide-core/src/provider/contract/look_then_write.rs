//! A submission to a store that has only the published methods: look what has the id, then write. In: a submission.
//! Out: what became of it. Two steps, so that another caller may come between them; stores that can do better override
//! `submit`.

use super::Provider;
use crate::provider::{IdState, OutcomeStatus, ProviderError, Step, Submission, Submitted};

/// Looks what has the id and writes after that, one item at a time: for stores that only have the published methods.
/// Two callers at once may both find the id free, and a process that dies in between leaves a part.
pub(super) async fn run<P: Provider + ?Sized>(
    store: &P,
    submission: Submission,
) -> Result<Submitted, ProviderError> {
    if let Err(refusal) = submission.check() {
        return Err(refusal.into_provider_error("submit"));
    }
    let found = match look(store, submission.instance()).await? {
        // A start may be queued that the store does not tell of: what comes right after it must not be refused.
        Look::Unclear if !submission.begins() => IdState::Starting,
        Look::Unclear => IdState::Unknown,
        Look::Clear(found) => found,
    };
    let found = match (submission.life(), store.as_management_capability()) {
        (Some(_), Some(admin)) => {
            let life = admin.incarnation(submission.instance()).await?;
            submission.as_found(found, life)
        }
        (Some(_), None) => submission.as_found(found, None),
        (None, _) => found,
    };
    if submission.request().is_some() && found != IdState::Unknown {
        // A start that is queued cannot be looked at: a request that is repeated is known from its first turn on.
        let history = store.read(submission.instance()).await?;
        if history.first().is_some_and(|first| submission.began(first)) {
            return Ok(Submitted::Started);
        }
    }
    let step = submission.step(found);
    if step == Step::Replace {
        let Some(admin) = store.as_management_capability() else {
            let why = "the store deletes nothing, so nothing can be replaced";
            return Err(ProviderError::permanent("submit", why));
        };
        match admin.delete_instance(submission.instance(), false).await {
            Err(error) if !error.is_retryable() && !error.is_store_closed() => {
                return Ok(Submission::answer(IdState::Unfinished, Step::Nothing));
            }
            Err(error) => return Err(error),
            Ok(_deleted) => {}
        }
    }
    // The start first: published stores delete messages of instances that they do not know.
    for (item, delay) in submission.items(step) {
        store.enqueue_for_orchestrator(item.clone(), delay).await?;
    }
    Ok(Submission::answer(found, step))
}

/// What a look at an id showed.
enum Look {
    Clear(IdState),
    /// No instance has it; whether a start is queued, the store does not tell.
    Unclear,
}

/// What has an id, as far as the store reports it.
async fn look<P: Provider + ?Sized>(store: &P, id: &str) -> Result<Look, ProviderError> {
    let known = |status: &OutcomeStatus| match status {
        OutcomeStatus::Running => IdState::Running,
        _ => IdState::Ended,
    };
    if let Some(outcome) = store.read_outcome(id).await? {
        return Ok(Look::Clear(known(&outcome.status)));
    }
    let pending = match store.as_management_capability() {
        Some(admin) => admin.pending_work(id).await?,
        None => None,
    };
    let is_starting = pending.map(|work| work.messages.iter().any(|one| one.begins.is_some()));
    if is_starting == Some(true) {
        return Ok(Look::Clear(IdState::Starting));
    }
    // The start may have been taken up between the two looks.
    Ok(match (store.read_outcome(id).await?, is_starting) {
        (Some(outcome), _) => Look::Clear(known(&outcome.status)),
        (None, Some(_)) => Look::Clear(IdState::Unknown),
        (None, None) => Look::Unclear,
    })
}
