//! Which of many starts of one id is accepted.

use duroxide_core::provider::{IdState, StartRule, Submitted};
use futures::future::{join, join_all};

use super::{CALLERS, MEETINGS, begins_once, end, one_is, start, start_with, submit, submit_to};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// Whatever the order in which they come.
pub async fn of_many_starts_that_must_be_new_one_is_accepted<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 0..MEETINGS {
        let id = format!("contested-{n}");
        let one = start(&id, StartRule::MustBeNew);
        let all = join_all((0..CALLERS).map(|_| submit(&bench, &one))).await;
        one_is(Submitted::Started, &all);
        begins_once(&bench, &id).await;
    }
}

/// The same, by two processes, and against a start of the published kind.
pub async fn of_starts_by_two_handles_one_is_accepted<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let other = factory.second_handle().await;
    for n in 0..MEETINGS {
        let id = format!("contested-{n}");
        let one = start(&id, StartRule::MustBeNew);
        let pair = join(submit(&bench, &one), submit_to(&*other, &one)).await;
        one_is(Submitted::Started, &[pair.0, pair.1]);
        begins_once(&bench, &id).await;
        assert_eq!(
            submit_to(&*other, &one).await,
            Submitted::Refused(IdState::Running)
        );
    }
}

/// A start that waits for its time has the id, and so has one whose first turn is under way.
pub async fn a_queued_start_counts_as_there<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let delay = bench.lock * 2;
    bench.send_after(items::start("later"), Some(delay)).await;
    let refused = Submitted::Refused(IdState::Starting);
    for rule in [StartRule::MustBeNew, StartRule::ReplaceFinished] {
        let submitted = submit(&bench, &start_with("later", rule, &["lost"])).await;
        assert_eq!(submitted, refused, "{rule:?}");
    }
    bench.idle("nothing is due").await;
    bench.outlive(delay).await;
    let turn = bench.turn_of("later").await;
    assert_eq!(turn.item.messages, [items::start("later")]);
    let again = start("later", StartRule::MustBeNew);
    assert_eq!(
        submit(&bench, &again).await,
        refused,
        "its turn is in flight"
    );
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(
        submit(&bench, &again).await,
        Submitted::Refused(IdState::Running)
    );
    bench.idle("what was refused left nothing").await;
}

/// Whatever the rule says no to, nothing is written.
pub async fn a_refused_submission_leaves_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("runs").await;
    end(&bench, "ended").await;
    let next = items::next_execution("between");
    let between = Commit::first().continued("next").message(next.clone());
    bench.create_with("between", between).await;
    let held = bench.turn_of("between").await;
    for (id, rule, found) in [
        ("runs", StartRule::MustBeNew, IdState::Running),
        ("runs", StartRule::ReplaceFinished, IdState::Running),
        ("between", StartRule::MustBeNew, IdState::Running),
        ("between", StartRule::ReplaceFinished, IdState::Running),
        ("ended", StartRule::MustBeNew, IdState::Ended),
        ("ended", StartRule::UseWhatIsThere, IdState::Ended),
    ] {
        let submitted = submit(&bench, &start_with(id, rule, &["lost"])).await;
        assert_eq!(submitted, Submitted::Refused(found), "{id}, {rule:?}");
    }
    bench.idle("nothing was stored").await;
    assert_eq!(held.item.messages, [next]);
    assert_eq!(bench.read("ended").await.len(), 2);
    assert_eq!(bench.read("runs").await.len(), 1);
}
