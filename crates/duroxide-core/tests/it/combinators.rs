//! Combinators: ours, and those of `futures` and `tokio`, over durable futures, also over many.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use duroxide_core::replay::Outcome;
use duroxide_core::{DurableFuture, OrchestrationContext};
use futures::StreamExt;
use futures::future::{join_all, select_all};
use futures::stream::FuturesUnordered;

use crate::history::{completed, fired, queue_message, signal};
use crate::world::{World, output};

const SIZES: [u64; 4] = [1_023, 1_024, 1_025, 10_000];

/// A future that counts its polls.
struct Counted {
    inner: DurableFuture<Result<String, String>>,
    polls: Arc<AtomicUsize>,
}

impl Future for Counted {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u64> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.inner)
            .poll(cx)
            .map(|result| result.expect("it completed").parse().expect("a number"))
    }
}

type Joiner =
    fn(OrchestrationContext, Vec<Counted>) -> Pin<Box<dyn Future<Output = Vec<u64>> + Send>>;

/// Fans out, answers in reverse order in batches, and checks results and the number of polls.
fn fan_in(children: u64, batch: usize, ordered: bool, join: Joiner) {
    let polls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&polls);
    let mut world = World::of(move |ctx, _| {
        let polls = Arc::clone(&counter);
        async move {
            let futures = (0..children).map(|n| Counted {
                inner: ctx.schedule_activity("A", n.to_string()),
                polls: Arc::clone(&polls),
            });
            let futures = futures.collect();
            let mut results = join(ctx, futures).await;
            if !ordered {
                results.sort_unstable();
            }
            assert!(results.iter().copied().eq(0..children));
            Ok(results.len().to_string())
        }
    });
    world.turn(vec![]);
    let ids: Vec<u64> = (2..children + 2).rev().collect();
    let mut last = Outcome::Waiting;
    for ids in ids.chunks(batch) {
        assert_eq!(last, Outcome::Waiting);
        let messages = ids.iter().map(|id| completed(*id, &(id - 2).to_string()));
        last = world.turn(messages.collect()).outcome;
    }
    assert_eq!(
        last,
        Outcome::Completed {
            output: children.to_string()
        }
    );
    let polls = polls.load(Ordering::Relaxed) as u64;
    assert!(
        polls <= 3 * children,
        "{polls} polls for {children} children"
    );
}

#[test]
fn our_join_completes_with_many_children_and_polls_each_a_few_times() {
    for children in SIZES {
        fan_in(children, 10_000, true, |ctx, futures| {
            Box::pin(async move { ctx.join(futures).await })
        });
    }
    fan_in(1_025, 7, true, |ctx, futures| {
        Box::pin(async move { ctx.join(futures).await })
    });
}

#[test]
fn join_all_completes_with_many_children() {
    for children in SIZES {
        fan_in(children, 10_000, true, |_, futures| {
            Box::pin(join_all(futures))
        });
    }
    fan_in(1_025, 7, true, |_, futures| Box::pin(join_all(futures)));
}

#[test]
fn futures_unordered_completes_with_many_children() {
    for children in SIZES {
        fan_in(children, 10_000, false, |_, futures| {
            Box::pin(
                futures
                    .into_iter()
                    .collect::<FuturesUnordered<_>>()
                    .collect(),
            )
        });
    }
}

#[test]
fn a_stream_that_is_buffered_unordered_schedules_as_it_goes() {
    let mut world = World::of(|ctx, _| async move {
        let results: Vec<String> = futures::stream::iter(0..50)
            .map(|n: u32| ctx.schedule_activity("A", n.to_string()))
            .buffer_unordered(4)
            .map(|result| result.unwrap())
            .collect()
            .await;
        Ok(results.len().to_string())
    });
    let mut turn = world.turn(vec![]);
    assert_eq!(turn.actions.len(), 4);
    while turn.outcome == Outcome::Waiting {
        let open = crate::arrivals::open(&world.history, false);
        turn = world.replayed_turn(vec![completed(open[0].id, "r")]);
    }
    assert_eq!(output(&turn), "50");
}

#[test]
fn select_all_drops_the_many_that_lost() {
    for children in SIZES {
        let mut world = World::of(move |ctx, _| async move {
            let race = (0..children).map(|n| ctx.schedule_activity("A", n.to_string()));
            let (result, place, rest) = select_all(race).await;
            drop(rest);
            ctx.schedule_wait("park").await;
            Ok(format!("{place} {}", result?))
        });
        world.turn(vec![]);
        let turn = world.turn(vec![completed(children / 2, "won")]);
        assert_eq!(turn.cancelled_activities.len() as u64, children - 1);
        let turn = world.replayed_turn(vec![signal("park", "")]);
        assert_eq!(output(&turn), format!("{} won", children / 2 - 2));
    }
}

#[test]
fn our_select_takes_many_and_a_tie_goes_to_the_lowest() {
    let mut world = World::of(|ctx, _| async move {
        let readers = (0..100).map(|_| ctx.dequeue_event("q")).collect();
        let (place, message) = ctx.select(readers).await;
        let (next, other) = ctx
            .select(vec![ctx.dequeue_event("q"), ctx.dequeue_event("q")])
            .await;
        Ok(format!("{place}={message} {next}={other}"))
    });
    world.turn(vec![queue_message("q", "m0"), queue_message("q", "m1")]);
    let last = world.history.last().unwrap();
    assert!(last.is_terminal(), "both messages were there");
    assert!(format!("{:?}", last.kind).contains("0=m0 0=m1"), "{last:?}");
}

#[test]
fn tokio_join_and_biased_select_work_over_durable_futures() {
    let mut world = World::of(|ctx, _| async move {
        let (a, b) = tokio::join!(
            ctx.schedule_activity("A", ""),
            ctx.schedule_activity("B", "")
        );
        let mut work = ctx.schedule_activity("C", "");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        let first = tokio::select! {
            biased;
            result = &mut work => format!("work {result:?}"),
            () = timer => "timer".to_owned(),
        };
        Ok(format!("{} {} {first} {}", a?, b?, work.await?))
    });
    world.turn(vec![]);
    world.replayed_turn(vec![completed(3, "b")]);
    world.replayed_turn(vec![completed(2, "a")]);
    world.replayed_turn(vec![fired(7)]);
    let turn = world.replayed_turn(vec![completed(6, "c")]);
    assert_eq!(output(&turn), "a b timer c");
}

#[test]
fn tokio_join_over_many_completes() {
    for children in SIZES {
        let mut world = World::of(move |ctx, _| async move {
            let many = |name: &'static str| {
                let ctx = ctx.clone();
                join_all((0..children / 2).map(move |n| ctx.schedule_activity(name, n.to_string())))
            };
            let (left, right) = tokio::join!(many("L"), many("R"));
            Ok((left.len() + right.len()).to_string())
        });
        world.turn(vec![]);
        let ids = (2..children / 2 * 2 + 2).rev();
        let turn = world.turn(ids.map(|id| completed(id, "")).collect());
        assert_eq!(output(&turn), (children / 2 * 2).to_string());
    }
}

#[test]
fn nested_joins_and_races_resolve_in_the_order_of_the_history() {
    let mut world = World::of(|ctx, _| async move {
        let branch = |name: &'static str| {
            let ctx = ctx.clone();
            async move {
                let first = ctx.schedule_activity(name, "1").await?;
                let second = ctx.schedule_activity(name, "2").await?;
                Ok::<_, String>(format!("{name}{first}{second}"))
            }
        };
        let pair = ctx.join2(branch("A"), branch("B"));
        let triple = ctx.select3(pair, branch("C"), std::future::pending::<()>());
        Ok(format!("{:?}", triple.await))
    });
    world.turn(vec![]);
    world.replayed_turn(vec![completed(3, "x"), completed(2, "x")]);
    world.replayed_turn(vec![completed(7, "y")]);
    let turn = world.replayed_turn(vec![completed(8, "y"), completed(4, "late")]);
    assert_eq!(output(&turn), "First((Ok(\"Axy\"), Ok(\"Bxy\")))");
}

#[test]
fn an_empty_join_is_ready_and_an_empty_fan_out_records_nothing() {
    let mut world = World::of(|ctx, _| async move {
        let none: Vec<DurableFuture<String>> = Vec::new();
        Ok(ctx.join(none).await.len().to_string())
    });
    assert_eq!(output(&world.turn(vec![])), "0");
}

#[test]
fn messages_that_were_there_first_reach_readers_inside_every_combinator() {
    let mut world = World::of(|ctx, _| async move {
        let readers = || (0..40).map(|_| ctx.dequeue_event("q"));
        let ours = ctx.join(readers().collect()).await;
        let theirs = join_all(readers()).await;
        let loose: Vec<String> = readers().collect::<FuturesUnordered<_>>().collect().await;
        Ok((ours.len() + theirs.len() + loose.len()).to_string())
    });
    let messages = (0..120).map(|n| queue_message("q", &n.to_string()));
    assert_eq!(output(&world.turn(messages.collect())), "120");
}

#[test]
fn ten_thousand_queue_messages_are_drained_in_one_turn() {
    let mut world = World::of(|ctx, _| async move {
        for n in 0..10_000 {
            assert_eq!(ctx.dequeue_event("q").await, n.to_string());
        }
        Ok("drained".into())
    });
    let messages = (0..10_000).map(|n| queue_message("q", &n.to_string()));
    assert_eq!(output(&world.turn(messages.collect())), "drained");
    world.history.pop();
    world.commits.clear();
    assert_eq!(
        output(&world.replayed_turn(vec![])),
        "drained",
        "and replayed"
    );
}
