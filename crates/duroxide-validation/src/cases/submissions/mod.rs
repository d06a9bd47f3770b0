//! A start and its messages are taken in one step, by a rule about what has the id; what is refused leaves nothing.

mod accepted;
mod messages;
mod repeated;
mod replaced;
mod stored;

pub use accepted::*;
pub use messages::*;
pub use repeated::*;
pub use replaced::*;
pub use stored::*;

use std::time::Duration;

use duroxide_core::provider::{IdState, MessageRule, Provider, StartRule, Submission, Submitted};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// How many callers meet, and how often.
const CALLERS: usize = 6;
const MEETINGS: usize = 8;

const RULES: [StartRule; 3] = [
    StartRule::MustBeNew,
    StartRule::UseWhatIsThere,
    StartRule::ReplaceFinished,
];

fn start(id: &str, rule: StartRule) -> Submission {
    start_with(id, rule, &[])
}

/// A start with queue messages of this content.
fn start_with(id: &str, rule: StartRule, messages: &[&str]) -> Submission {
    let messages = messages.iter().map(|data| items::queue_message(id, data));
    Submission::start(items::start(id), None, rule, messages.collect())
}

fn message(id: &str, rule: MessageRule, data: &str) -> Submission {
    Submission::messages(id, rule, vec![items::queue_message(id, data)])
}

/// Submits; a store that is busy is asked again.
async fn submit_to(store: &dyn Provider, submission: &Submission) -> Submitted {
    loop {
        match store.submit(submission.clone()).await {
            Ok(submitted) => return submitted,
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("a submission failed for good: {error}"),
        }
    }
}

async fn submit<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, one: &Submission) -> Submitted {
    submit_to(&*bench.store, one).await
}

async fn end<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) {
    bench.create_with(id, Commit::first().completed("1")).await;
}

/// Exactly one of these is so, and the others were refused because of it.
fn one_is(accepted: Submitted, all: &[Submitted]) {
    let of = |wanted: Submitted| all.iter().filter(|one| **one == wanted).count();
    let because = Submitted::Refused(IdState::Starting);
    assert_eq!((of(accepted), of(because)), (1, all.len() - 1), "{all:?}");
}

/// The instance has one start, and takes it up.
async fn begins_once<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) {
    let turn = bench.turn_of(id).await;
    let only = [items::start(id)];
    assert_eq!(turn.item.messages, only, "one start is stored");
    bench.commit(&turn, Commit::first()).await;
}
