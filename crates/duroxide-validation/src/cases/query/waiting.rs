//! Instances by what they wait for.

use duroxide_core::provider::{
    CountBy, InstanceQuery, InstanceStatus, SortKey, SortOrder, WaitingFor,
};
use duroxide_core::{EventKind, WaitKind};

use super::paging::all_pages;
use super::{found, page};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

fn signal_asked(name: &str) -> EventKind {
    EventKind::ExternalSubscribed { name: name.into() }
}

fn signal_came(name: &str) -> EventKind {
    let (name, data) = (name.into(), String::new());
    EventKind::ExternalEvent { name, data }
}

fn message_asked(queue: &str) -> EventKind {
    EventKind::QueueSubscribed { name: queue.into() }
}

fn message_came(queue: &str) -> EventKind {
    let (name, data) = (queue.into(), String::new());
    EventKind::QueueEventDelivered { name, data }
}

fn child_asked(name: &str) -> EventKind {
    EventKind::SubOrchestrationScheduled {
        name: name.into(),
        instance: "child".into(),
        input: String::new(),
    }
}

fn waiting(what: WaitingFor) -> InstanceQuery {
    InstanceQuery::new().waiting_for(what)
}

/// What was asked for and did not come, by kind and by name. What came, and what an instance waited for before it ended
/// or continued as new, is not waited for.
pub async fn instances_are_found_by_what_they_wait_for<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first;
    for (id, turn) in [
        ("signal", first().and(signal_asked("go"))),
        ("activity", first().and(kinds::activity_scheduled("go"))),
        ("message", first().and(message_asked("go"))),
        ("child", first().and(child_asked("go"))),
        (
            "timer",
            first().and(EventKind::TimerCreated { fire_at_ms: 1 }),
        ),
        ("other", first().and(signal_asked("stop"))),
        (
            "answered",
            first().and(signal_asked("go")).and(signal_came("go")),
        ),
        (
            "early",
            first().and(message_came("go")).and(message_asked("go")),
        ),
        ("ended", first().and(signal_asked("go")).completed("ok")),
        (
            "continued",
            first().and(signal_asked("go")).continued("next"),
        ),
        ("idle", first()),
    ] {
        bench.create_with(id, turn).await;
    }
    bench.next_execution("continued", Commit::first_of(2)).await;
    for (what, expected) in [
        (WaitingFor::signal("go"), vec!["signal"]),
        (WaitingFor::activity("go"), vec!["activity"]),
        (WaitingFor::queue_message("go"), vec!["message"]),
        (WaitingFor::child("go"), vec!["child"]),
        (WaitingFor::any(WaitKind::Timer), vec!["timer"]),
        (WaitingFor::any(WaitKind::Signal), vec!["other", "signal"]),
        (
            WaitingFor::anything_named("go"),
            vec!["activity", "child", "message", "signal"],
        ),
        (WaitingFor::signal("g"), vec![]),
    ] {
        let query = waiting(what.clone());
        assert_eq!(found(&bench, &query).await, expected, "{what:?}");
    }
    let both = waiting(WaitingFor::anything_named("go")).with_id_prefix("s");
    assert_eq!(
        found(&bench, &both).await,
        ["signal"],
        "with another criterion"
    );
    let ended = waiting(WaitingFor::signal("go")).with_status(InstanceStatus::Completed);
    let nobody: [&str; 0] = [];
    assert_eq!(
        found(&bench, &ended).await,
        nobody,
        "what has ended waits for nothing"
    );

    bench.send(items::signal("signal", "go")).await;
    let turn = Commit::to(1).event(3, signal_came("go"));
    bench.advance("signal", turn).await;
    let query = waiting(WaitingFor::signal("go"));
    assert_eq!(found(&bench, &query).await, nobody, "it came");
}

/// Page by page each is met once, in the order that all have; counts are those of all pages.
///
/// A page of such a query may hold fewer than asked for and lead to another one.
pub async fn waiting_instances_are_met_once_and_counted<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..9 {
        let first = Commit::first();
        let first = match n % 2 {
            0 => first.and(signal_asked("go")),
            _ => first.and(signal_asked("stop")),
        };
        bench.create_with(&format!("waiting-{n}"), first).await;
        bench.pass(bench.brief()).await;
    }
    let expected = [
        "waiting-0",
        "waiting-2",
        "waiting-4",
        "waiting-6",
        "waiting-8",
    ];
    for by in [SortKey::Created, SortKey::Updated] {
        for order in [SortOrder::NewestFirst, SortOrder::OldestFirst] {
            let query = waiting(WaitingFor::signal("go")).sorted(by, order);
            let pages = all_pages(&bench, query.with_page_size(2)).await;
            assert!(pages.iter().all(|page| page.len() <= 2), "{pages:?}");
            let mut met = pages.concat();
            if order == SortOrder::NewestFirst {
                met.reverse();
            }
            assert_eq!(met, expected, "{by:?} {order:?}");
        }
    }
    let query = waiting(WaitingFor::signal("go")).with_page_size(2);
    let admin = bench.admin();
    for by in [CountBy::Nothing, CountBy::Status, CountBy::Name] {
        let counts = admin.count_instances(&query, by).await;
        let counts = counts.expect("a query can be counted");
        let counts: Vec<u64> = counts.into_iter().map(|one| one.count).collect();
        assert_eq!(counts, [5], "{by:?}");
    }
    let nobody = waiting(WaitingFor::signal("nothing"));
    let none = admin.count_instances(&nobody, CountBy::Nothing).await;
    assert_eq!(none.expect("a query can be counted")[0].count, 0);
    let last = page(&bench, &nobody).await;
    assert!(last.items.is_empty() && last.next.is_none());
}
