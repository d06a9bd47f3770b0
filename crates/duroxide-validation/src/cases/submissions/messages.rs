//! Messages, alone and with a start.

use duroxide_core::WorkItem;
use duroxide_core::provider::{IdState, MessageRule, StartRule, Submission, Submitted};
use futures::future::join;

use super::{MEETINGS, RULES, end, message, start_with, submit};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, contended, items};

/// What runs, or is about to, gets the messages and no second start.
pub async fn messages_go_to_what_is_there<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let uses = |data| start_with("used", StartRule::UseWhatIsThere, &[data]);
    assert_eq!(submit(&bench, &uses("1")).await, Submitted::Started);
    let joined = submit(&bench, &uses("2")).await;
    assert_eq!(joined, Submitted::Joined(IdState::Starting));
    let turn = bench.turn_of("used").await;
    let queue_message = |data| items::queue_message("used", data);
    assert_eq!(
        turn.item.messages,
        [items::start("used"), queue_message("1"), queue_message("2")]
    );
    bench.commit(&turn, Commit::first()).await;
    let joined = submit(&bench, &uses("3")).await;
    assert_eq!(joined, Submitted::Joined(IdState::Running));
    let turn = bench.turn_of("used").await;
    assert_eq!(turn.item.messages, [queue_message("3")]);
}

/// No claim takes a start whose messages are not there.
pub async fn a_start_and_its_messages_come_together<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let data: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    for (n, rule) in (0..MEETINGS).zip(RULES.into_iter().cycle()) {
        let id = format!("together-{n}");
        let one = start_with(&id, rule, &data);
        let claim = async {
            loop {
                if let Some(turn) = contended(&*bench.store, bench.lock).await {
                    return turn;
                }
                tokio::task::yield_now().await;
            }
        };
        let (submitted, turn): (_, Turn) = join(submit(&bench, &one), claim).await;
        assert_eq!(submitted, Submitted::Started);
        let mut wanted = vec![items::start(&id)];
        wanted.extend(data.iter().map(|data| items::queue_message(&id, data)));
        assert_eq!(turn.item.messages, wanted, "all of it, in order");
        bench.commit(&turn, Commit::first()).await;
    }
}

/// The messages of a start that waits for its time wait with it.
pub async fn a_delayed_start_begins_with_its_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let delay = bench.lock * 2;
    let queue_message = items::queue_message("later", "first");
    let one = Submission::start(
        items::start("later"),
        Some(delay),
        StartRule::MustBeNew,
        vec![queue_message.clone()],
    );
    assert_eq!(submit(&bench, &one).await, Submitted::Started);
    bench.idle("its time has not come").await;
    bench.outlive(delay).await;
    let turn = bench.turn_of("later").await;
    assert_eq!(turn.item.messages, [items::start("later"), queue_message]);
}

/// A sender hears what has the id, and a message to an instance that has ended is not stored.
pub async fn a_message_needs_somebody_who_reads_it<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    end(&bench, "ended").await;
    bench.create("runs").await;
    bench
        .send_after(items::start("later"), Some(bench.lock * 100))
        .await;
    let both = [MessageRule::MustBeAlive, MessageRule::MustNotHaveEnded];
    for rule in both {
        let submitted = submit(&bench, &message("ended", rule, "lost")).await;
        assert_eq!(submitted, Submitted::Refused(IdState::Ended), "{rule:?}");
        let submitted = submit(&bench, &message("later", rule, "kept")).await;
        assert_eq!(submitted, Submitted::Joined(IdState::Starting), "{rule:?}");
    }
    bench.idle("nobody reads them now").await;
    let stranger = submit(&bench, &message("new", MessageRule::MustBeAlive, "lost")).await;
    assert_eq!(stranger, Submitted::Refused(IdState::Unknown));
    let early = message("new", MessageRule::MustNotHaveEnded, "early");
    let early = submit(&bench, &early).await;
    assert_eq!(early, Submitted::Joined(IdState::Unknown));
    bench.start("new").await;
    let turn = bench.turn_of("new").await;
    let queue_messages_of = |turn: &Turn| -> Vec<WorkItem> {
        let queue_messages = turn.item.messages.iter();
        let queue_messages =
            queue_messages.filter(|item| matches!(item, WorkItem::QueueMessage { .. }));
        queue_messages.cloned().collect()
    };
    assert_eq!(
        queue_messages_of(&turn),
        [items::queue_message("new", "early")]
    );
    for rule in both {
        let submitted = submit(&bench, &message("runs", rule, "kept")).await;
        assert_eq!(submitted, Submitted::Joined(IdState::Running), "{rule:?}");
    }
    let turn = bench.turn_of("runs").await;
    assert_eq!(queue_messages_of(&turn).len(), 2);
}
