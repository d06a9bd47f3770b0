//! A request that is repeated, because its answer was lost, is answered as the first time.

use duroxide_core::provider::{IdState, StartRule, Submission, Submitted};
use duroxide_core::{StartExtras, WorkItem};

use super::{RULES, submit};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

fn asked_by(request: &str) -> StartExtras {
    let extras = StartExtras::default().with_request(request);
    extras.expect("the queue messages are fit")
}

/// A start that this request asks for; its own input looks like that of another one.
fn start_of(id: &str, extras: &StartExtras) -> WorkItem {
    let mut start = items::start(id);
    if let WorkItem::StartOrchestration { input, .. } = &mut start {
        *input = extras.in_front_of(asked_by("another").in_front_of(String::new()));
    }
    start
}

fn asks(id: &str, request: &str, rule: StartRule) -> Submission {
    let queue_message = items::queue_message(id, "1");
    Submission::start(
        start_of(id, &asked_by(request)),
        None,
        rule,
        vec![queue_message],
    )
}

/// The first turn of an execution of an instance that this request asked for.
fn begun_by(request: &str, execution: u64) -> Commit {
    let (queue, data) = asked_by(request).carried().expect("it is something");
    Commit::to(execution)
        .event(1, kinds::started_carrying(&[(&queue, &data)]))
        .named(NAME, VERSION)
}

/// While its start is queued, while it is claimed, while the instance runs, in its next execution and when it has
/// ended.
pub async fn a_repeated_request_is_answered_as_the_first_time<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for (n, rule) in RULES.into_iter().enumerate() {
        let id = format!("repeated-{n}");
        let one = asks(&id, "one", rule);
        let again = async |when: &str| {
            let answer = submit(&bench, &one).await;
            assert_eq!(answer, Submitted::Started, "{when}, {rule:?}");
        };
        again("the first time").await;
        again("queued").await;
        let turn = bench.turn_of(&id).await;
        let wanted = [
            start_of(&id, &asked_by("one")),
            items::queue_message(&id, "1"),
        ];
        assert_eq!(turn.item.messages, wanted, "it is stored once");
        again("claimed").await;
        let next = items::next_execution(&id);
        let first = begun_by("one", 1).continued("next").message(next.clone());
        bench.commit(&turn, first).await;
        again("between two executions").await;
        let turn = bench.turn_of(&id).await;
        assert_eq!(turn.item.messages, [next], "its messages came once");
        let second = begun_by("one", 2).and(kinds::activity_scheduled("A"));
        bench.commit(&turn, second).await;
        again("running").await;
        let ended = Commit::to(2)
            .event(3, kinds::completed("1"))
            .status("Completed", Some("1"));
        bench.nudge(&id, ended).await;
        again("ended").await;
        bench.idle("nothing was stored").await;
        assert_eq!(bench.read(&id).await.len(), 3, "nothing was replaced");
    }
}

/// Neither another request nor a start without a request id is taken for the first.
pub async fn another_request_is_not_taken_for_the_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let one = asks("taken", "one", StartRule::MustBeNew);
    assert_eq!(submit(&bench, &one).await, Submitted::Started);
    let strangers = [
        asks("taken", "another", StartRule::MustBeNew),
        asks("taken", "on", StartRule::MustBeNew),
        Submission::start(items::start("taken"), None, StartRule::MustBeNew, vec![]),
    ];
    let refused = async |found: IdState| {
        for stranger in &strangers {
            let answer = submit(&bench, stranger).await;
            assert_eq!(answer, Submitted::Refused(found), "{stranger:?}");
        }
    };
    refused(IdState::Starting).await;
    bench.advance("taken", begun_by("one", 1)).await;
    refused(IdState::Running).await;
    bench.create("anybodys").await;
    let late = submit(&bench, &asks("anybodys", "one", StartRule::MustBeNew)).await;
    assert_eq!(late, Submitted::Refused(IdState::Running));
    let ended = Commit::to(1)
        .event(2, kinds::completed("1"))
        .status("Completed", Some("1"));
    bench.nudge("taken", ended).await;
    refused(IdState::Ended).await;
    bench.idle("nothing was stored").await;
    let replaced = asks("taken", "another", StartRule::ReplaceFinished);
    assert_eq!(submit(&bench, &replaced).await, Submitted::Replaced);
}
