//! A start and its messages are taken in one step, by a rule about what has the id; what is refused leaves nothing.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    MessageRule, Provider, ProviderError, Standing, StartRule, Submission, Submitted,
};
use futures::future::{join, join_all};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, contended, items, kinds};

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
    let because = Submitted::Refused(Standing::Starting);
    assert_eq!((of(accepted), of(because)), (1, all.len() - 1), "{all:?}");
}

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
        let turn = bench.turn_of(&id).await;
        assert_eq!(
            turn.item.messages,
            [items::start(&id)],
            "one start is stored"
        );
        bench.commit(&turn, Commit::first()).await;
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
        let turn = bench.turn_of(&id).await;
        assert_eq!(
            turn.item.messages,
            [items::start(&id)],
            "one start is stored"
        );
        bench.commit(&turn, Commit::first()).await;
        assert_eq!(
            submit_to(&*other, &one).await,
            Submitted::Refused(Standing::Running)
        );
    }
}

/// A start that waits for its time has the id, and so has one whose first turn is under way.
pub async fn a_queued_start_counts_as_there<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let delay = bench.lock * 2;
    bench.send_after(items::start("later"), Some(delay)).await;
    let refused = Submitted::Refused(Standing::Starting);
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
        Submitted::Refused(Standing::Running)
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
        ("runs", StartRule::MustBeNew, Standing::Running),
        ("runs", StartRule::ReplaceFinished, Standing::Running),
        ("between", StartRule::MustBeNew, Standing::Running),
        ("between", StartRule::ReplaceFinished, Standing::Running),
        ("ended", StartRule::MustBeNew, Standing::Ended),
        ("ended", StartRule::UseWhatIsThere, Standing::Ended),
    ] {
        let submitted = submit(&bench, &start_with(id, rule, &["lost"])).await;
        assert_eq!(submitted, Submitted::Refused(found), "{id}, {rule:?}");
    }
    bench.idle("nothing was stored").await;
    assert_eq!(held.item.messages, [next]);
    assert_eq!(bench.read("ended").await.len(), 2);
    assert_eq!(bench.read("runs").await.len(), 1);
}

/// What runs, or is about to, gets the messages and no second start.
pub async fn messages_go_to_what_is_there<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let uses = |data| start_with("used", StartRule::UseWhatIsThere, &[data]);
    assert_eq!(submit(&bench, &uses("1")).await, Submitted::Started);
    let joined = submit(&bench, &uses("2")).await;
    assert_eq!(joined, Submitted::Joined(Standing::Starting));
    let turn = bench.turn_of("used").await;
    let letter = |data| items::queue_message("used", data);
    assert_eq!(
        turn.item.messages,
        [items::start("used"), letter("1"), letter("2")]
    );
    bench.commit(&turn, Commit::first()).await;
    let joined = submit(&bench, &uses("3")).await;
    assert_eq!(joined, Submitted::Joined(Standing::Running));
    let turn = bench.turn_of("used").await;
    assert_eq!(turn.item.messages, [letter("3")]);
}

/// Nobody ever claims a start whose messages are not there.
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
    let letter = items::queue_message("later", "first");
    let one = Submission::start(
        items::start("later"),
        Some(delay),
        StartRule::MustBeNew,
        vec![letter.clone()],
    );
    assert_eq!(submit(&bench, &one).await, Submitted::Started);
    bench.idle("its time has not come").await;
    bench.outlive(delay).await;
    let turn = bench.turn_of("later").await;
    assert_eq!(turn.item.messages, [items::start("later"), letter]);
}

/// The new life begins with its own messages; of the old one nothing is left, nor of its children.
pub async fn a_replaced_instance_leaves_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("key", "old"))
        .and(kinds::custom_status(Some("old")));
    bench.create_with("order", first).await;
    bench
        .create_child("order-child", "order", Commit::first().completed("1"))
        .await;
    bench
        .nudge(
            "order",
            Commit::to(1)
                .event(4, kinds::completed("old"))
                .status("Completed", Some("old")),
        )
        .await;
    bench.send(items::queue_message("order", "old")).await;
    bench.schedule(items::activity("order", 9)).await;
    let one = start_with("order", StartRule::ReplaceFinished, &["new"]);
    assert_eq!(submit(&bench, &one).await, Submitted::Replaced);

    assert!(bench.read("order").await.is_empty());
    assert!(bench.read("order-child").await.is_empty());
    let known = bench.admin().list_instances().await;
    assert!(known.expect("a list").is_empty());
    let values = bench.store.get_kv_all_values("order").await;
    assert!(values.expect("an answer").is_empty());
    assert!(bench.find_work().await.is_none(), "its activity is gone");
    let turn = bench.turn_of("order").await;
    let letter = items::queue_message("order", "new");
    assert_eq!(turn.item.messages, [items::start("order"), letter]);
    assert!(turn.item.history.is_empty() && turn.item.kv_snapshot.is_empty());
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(bench.read("order").await.len(), 1);
    let status = bench.store.get_custom_status("order", 0).await;
    assert_eq!(status.expect("an answer"), None);
}

/// Not while a descendant runs, and no child by itself.
pub async fn nothing_is_replaced_while_a_descendant_runs<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("root").await;
    bench
        .create_child("middle", "root", Commit::first().completed("1"))
        .await;
    bench.create_child("leaf", "middle", Commit::first()).await;
    bench
        .nudge(
            "root",
            Commit::to(1)
                .event(2, kinds::completed("1"))
                .status("Completed", Some("1")),
        )
        .await;
    for id in ["root", "middle"] {
        let one = start_with(id, StartRule::ReplaceFinished, &["lost"]);
        let submitted = submit(&bench, &one).await;
        assert_eq!(submitted, Submitted::Refused(Standing::Unfinished), "{id}");
    }
    bench.idle("nothing was stored").await;
    for (id, events) in [("root", 2), ("middle", 2), ("leaf", 1)] {
        assert_eq!(bench.read(id).await.len(), events, "{id} is there");
    }
    bench
        .nudge(
            "leaf",
            Commit::to(1)
                .event(2, kinds::completed("1"))
                .status("Completed", Some("1")),
        )
        .await;
    let one = start("root", StartRule::ReplaceFinished);
    assert_eq!(submit(&bench, &one).await, Submitted::Replaced);
}

/// There is no moment at which the old life is gone and the new one not there.
pub async fn nothing_comes_between_the_old_life_and_the_new<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 0..MEETINGS {
        let id = format!("replaced-{n}");
        end(&bench, &id).await;
        let (replace, new) = (
            start(&id, StartRule::ReplaceFinished),
            start(&id, StartRule::MustBeNew),
        );
        let replacing = join_all((0..CALLERS).map(|_| submit(&bench, &replace)));
        let meanwhile = async {
            for _ in 0..CALLERS {
                let refused = submit(&bench, &new).await;
                assert!(
                    matches!(
                        refused,
                        Submitted::Refused(Standing::Ended | Standing::Starting)
                    ),
                    "{refused:?}"
                );
                tokio::task::yield_now().await;
            }
        };
        let (all, ()) = join(replacing, meanwhile).await;
        one_is(Submitted::Replaced, &all);
        let turn = bench.turn_of(&id).await;
        assert_eq!(
            turn.item.messages,
            [items::start(&id)],
            "one start is stored"
        );
        bench.commit(&turn, Commit::first()).await;
    }
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
        assert_eq!(submitted, Submitted::Refused(Standing::Ended), "{rule:?}");
        let submitted = submit(&bench, &message("later", rule, "kept")).await;
        assert_eq!(submitted, Submitted::Joined(Standing::Starting), "{rule:?}");
    }
    bench.idle("nobody reads them now").await;
    let stranger = submit(&bench, &message("new", MessageRule::MustBeAlive, "lost")).await;
    assert_eq!(stranger, Submitted::Refused(Standing::Unknown));
    let early = message("new", MessageRule::MustNotHaveEnded, "early");
    let early = submit(&bench, &early).await;
    assert_eq!(early, Submitted::Joined(Standing::Unknown));
    bench.start("new").await;
    let turn = bench.turn_of("new").await;
    let of_letters = |turn: &Turn| -> Vec<WorkItem> {
        let letters = turn.item.messages.iter();
        let letters = letters.filter(|item| matches!(item, WorkItem::QueueMessage { .. }));
        letters.cloned().collect()
    };
    assert_eq!(of_letters(&turn), [items::queue_message("new", "early")]);
    for rule in both {
        let submitted = submit(&bench, &message("runs", rule, "kept")).await;
        assert_eq!(submitted, Submitted::Joined(Standing::Running), "{rule:?}");
    }
    let turn = bench.turn_of("runs").await;
    assert_eq!(of_letters(&turn).len(), 2);
}

/// An item for another instance, or of a wrong kind, is an error for good, and nothing is stored.
pub async fn a_stray_item_stores_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let with = |item: WorkItem| {
        Submission::start(items::start("one"), None, StartRule::MustBeNew, vec![item])
    };
    for stray in [
        with(items::queue_message("other", "1")),
        with(items::start("one")),
        with(items::activity("one", 2)),
        Submission::start(
            items::signal("one", "go"),
            None,
            StartRule::MustBeNew,
            vec![],
        ),
    ] {
        let error: ProviderError = bench.store.submit(stray).await.expect_err("it is refused");
        assert!(!error.is_retryable(), "{error}");
    }
    bench.idle("nothing was stored").await;
    let fit = start("one", StartRule::MustBeNew);
    assert_eq!(submit(&bench, &fit).await, Submitted::Started);
}

/// A store that is closed takes no submission, and gives its reason.
pub async fn a_closed_store_takes_no_submission<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    end(&bench, "ended").await;
    bench.create("runs").await;
    let closed = bench.admin().close_store(None, Some("it moved")).await;
    closed.expect("it can be closed");
    for one in [
        start("new", StartRule::MustBeNew),
        start_with("runs", StartRule::UseWhatIsThere, &["1"]),
        start("ended", StartRule::ReplaceFinished),
        message("runs", MessageRule::MustBeAlive, "1"),
    ] {
        let error = bench.store.submit(one).await.expect_err("it is refused");
        assert!(error.message.contains("it moved"), "{error}");
    }
    assert_eq!(bench.read("ended").await.len(), 2, "it is there");
    let opened = bench.admin().close_store(Some("it moved"), None).await;
    opened.expect("it can be opened");
    bench.idle("nothing was stored").await;
}

/// The start and its messages are there in the next process, and the rule holds against them.
pub async fn a_submission_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let one = start_with("kept", StartRule::MustBeNew, &["1", "2"]);
    assert_eq!(submit(&bench, &one).await, Submitted::Started);
    let bench = bench.reopen().await;
    assert_eq!(
        submit(&bench, &one).await,
        Submitted::Refused(Standing::Starting)
    );
    let turn = bench.turn_of("kept").await;
    let letter = |data| items::queue_message("kept", data);
    assert_eq!(
        turn.item.messages,
        [items::start("kept"), letter("1"), letter("2")]
    );
}
