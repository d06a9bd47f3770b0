//! Changed code meets a history that the code before the change recorded. Every change that the rules forbid is
//! noticed, and unchanged code is never suspected.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{OrchestrationHandler, WorkItem};

use crate::history::{child_completed, completed, fired, letter, signal};
use crate::world::{World, handler};

/// A change of code, what arrives before it is deployed, and how the report begins.
struct Mutation {
    name: &'static str,
    before: Arc<dyn OrchestrationHandler>,
    after: Arc<dyn OrchestrationHandler>,
    messages: Vec<WorkItem>,
    headline: &'static str,
}

macro_rules! mutation {
    ($name:literal, $headline:literal, [$($message:expr),*], |$ctx:ident| $before:block, $after:block) => {
        Mutation {
            name: $name,
            before: handler(|$ctx, _| async move { $before; Ok(String::new()) }),
            after: handler(|$ctx, _| async move { $after; Ok(String::new()) }),
            messages: vec![$($message),*],
            headline: $headline,
        }
    };
}

const SECOND: Duration = Duration::from_secs(1);

/// Something to wait for at the end, so that the instance is still running.
macro_rules! park {
    ($ctx:ident) => {
        $ctx.schedule_wait("park").await
    };
}

fn activities() -> Vec<Mutation> {
    vec![
        mutation!(
            "renames an activity",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_activity("B", "x").await? }
        ),
        mutation!(
            "changes an input",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_activity("A", "y").await? }
        ),
        mutation!(
            "adds a session",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_activity_on_session("A", "x", "s").await? }
        ),
        mutation!(
            "changes a session",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity_on_session("A", "x", "s").await? },
            { ctx.schedule_activity_on_session("A", "x", "t").await? }
        ),
        mutation!(
            "adds a tag",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_activity("A", "x").with_tag("gpu").await? }
        ),
        mutation!(
            "removes a tag",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").with_tag("gpu").await? },
            { ctx.schedule_activity("A", "x").await? }
        ),
        mutation!(
            "turns an activity into a timer",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_timer(SECOND).await }
        ),
        mutation!(
            "turns an activity into a child",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "x").await? },
            { ctx.schedule_sub_orchestration("A", "x").await? }
        ),
        mutation!(
            "reorders two activities",
            "schedule mismatch",
            [],
            |ctx| {
                let a = ctx.schedule_activity("A", "");
                let b = ctx.schedule_activity("B", "");
                ctx.join(vec![a, b]).await
            },
            {
                let b = ctx.schedule_activity("B", "");
                let a = ctx.schedule_activity("A", "");
                ctx.join(vec![a, b]).await
            }
        ),
        mutation!(
            "inserts an activity before",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "").await? },
            {
                let _new = ctx.schedule_activity("New", "");
                ctx.schedule_activity("A", "").await?
            }
        ),
        mutation!(
            "inserts an activity between two",
            "schedule mismatch",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("New", "").await?;
                ctx.schedule_activity("B", "").await?
            }
        ),
        mutation!(
            "removes the first activity",
            "schedule mismatch",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            { ctx.schedule_activity("B", "").await? }
        ),
        mutation!(
            "removes the last activity",
            "history schedule but no emitted action",
            [],
            |ctx| {
                let _b = ctx.schedule_activity("A", "");
                ctx.schedule_activity("B", "").await?
            },
            { ctx.schedule_activity("A", "").await? }
        ),
        mutation!(
            "makes a sequence parallel",
            "schedule mismatch",
            [completed(2, ""), signal("s", "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_timer(SECOND).await;
                ctx.schedule_activity("B", "").await?
            },
            {
                let b = ctx.schedule_activity("B", "");
                ctx.schedule_activity("A", "").await?;
                b.await?
            }
        ),
        mutation!(
            "awaits before it schedules the second",
            "history schedule but no emitted action",
            [],
            |ctx| {
                let a = ctx.schedule_activity("A", "");
                let b = ctx.schedule_activity("B", "");
                a.await?;
                b.await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            }
        ),
        mutation!(
            "adds a timeout in front",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_activity("A", "").await? },
            {
                let timer = ctx.schedule_timer(SECOND);
                let work = ctx.schedule_activity("A", "");
                ctx.select2(work, timer).await
            }
        ),
        mutation!(
            "replaces a call by a retry with a timeout",
            "history schedule but no emitted action",
            [],
            |ctx| {
                let _timer = ctx.schedule_timer(SECOND);
                ctx.schedule_timer(SECOND).await
            },
            { ctx.schedule_timer(SECOND).await }
        ),
    ]
}

fn waits() -> Vec<Mutation> {
    vec![
        mutation!(
            "renames a signal",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_wait("s").await },
            { ctx.schedule_wait("t").await }
        ),
        mutation!(
            "renames a queue",
            "schedule mismatch",
            [],
            |ctx| { ctx.dequeue_event("q").await },
            { ctx.dequeue_event("r").await }
        ),
        mutation!(
            "turns a signal into a queue",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_wait("s").await },
            { ctx.dequeue_event("s").await }
        ),
        mutation!(
            "turns a timer into a wait",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_timer(SECOND).await },
            { ctx.schedule_wait("s").await }
        ),
        mutation!(
            "reads one message less",
            "history schedule but no emitted action",
            [letter("q", "1")],
            |ctx| {
                ctx.dequeue_event("q").await;
                ctx.dequeue_event("q").await
            },
            { ctx.dequeue_event("q").await }
        ),
        mutation!(
            "removes a timer",
            "history schedule but no emitted action",
            [fired(2)],
            |ctx| {
                ctx.schedule_timer(SECOND).await;
                park!(ctx)
            },
            { std::future::pending::<()>().await }
        ),
    ]
}

fn children() -> Vec<Mutation> {
    vec![
        mutation!(
            "renames a child",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_sub_orchestration("C", "x").await? },
            { ctx.schedule_sub_orchestration("D", "x").await? }
        ),
        mutation!(
            "changes a child's input",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_sub_orchestration("C", "x").await? },
            { ctx.schedule_sub_orchestration("C", "y").await? }
        ),
        mutation!(
            "changes the version of a child",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_sub_orchestration_versioned("C", Some("1.0.0".into()), "x")
                    .await?
            },
            {
                ctx.schedule_sub_orchestration_versioned("C", Some("2.0.0".into()), "x")
                    .await?
            }
        ),
        mutation!(
            "drops the version of a child",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_sub_orchestration_versioned("C", Some("1.0.0".into()), "x")
                    .await?
            },
            { ctx.schedule_sub_orchestration("C", "x").await? }
        ),
        mutation!(
            "changes the explicit id of a child",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_sub_orchestration_with_id("C", "one", "x")
                    .await?
            },
            {
                ctx.schedule_sub_orchestration_with_id("C", "two", "x")
                    .await?
            }
        ),
        mutation!(
            "lets the engine choose the id of a child",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_sub_orchestration_with_id("C", "one", "x")
                    .await?
            },
            { ctx.schedule_sub_orchestration("C", "x").await? }
        ),
        mutation!(
            "chooses the id of a child itself",
            "schedule mismatch",
            [],
            |ctx| { ctx.schedule_sub_orchestration("C", "x").await? },
            {
                ctx.schedule_sub_orchestration_with_id("C", "one", "x")
                    .await?
            }
        ),
        mutation!(
            "awaits a detached start",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_orchestration("D", "d", "x");
                park!(ctx)
            },
            {
                ctx.schedule_sub_orchestration_with_id("D", "d", "x")
                    .await?
            }
        ),
        mutation!(
            "renames a detached start",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_orchestration("D", "d", "x");
                park!(ctx)
            },
            {
                ctx.schedule_orchestration("E", "d", "x");
                park!(ctx)
            }
        ),
        mutation!(
            "changes the id of a detached start",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_orchestration("D", "d", "x");
                park!(ctx)
            },
            {
                ctx.schedule_orchestration("D", "e", "x");
                park!(ctx)
            }
        ),
        mutation!(
            "changes the version of a detached start",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.schedule_orchestration_versioned("D", Some("1.0.0".into()), "d", "x");
                park!(ctx)
            },
            {
                ctx.schedule_orchestration_versioned("D", Some("1.1.0".into()), "d", "x");
                park!(ctx)
            }
        ),
        mutation!(
            "removes a detached start",
            "history OrchestrationChained but no emitted action",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_orchestration("D", "d", "x");
                std::mem::forget(ctx.schedule_wait("park"));
                std::future::pending::<()>().await
            },
            {
                ctx.schedule_activity("A", "").await?;
                std::future::pending::<()>().await
            }
        ),
        mutation!(
            "forgets a child's result",
            "schedule mismatch",
            [child_completed(2, "r")],
            |ctx| {
                let result = ctx.schedule_sub_orchestration("C", "x").await?;
                ctx.schedule_activity("Use", result).await?
            },
            {
                ctx.schedule_sub_orchestration("C", "x").await?;
                ctx.schedule_activity("Use", "").await?
            }
        ),
    ]
}

fn values() -> Vec<Mutation> {
    vec![
        mutation!(
            "changes a key",
            "kv set mismatch",
            [],
            |ctx| {
                ctx.set_kv_value("k", "1");
                park!(ctx)
            },
            {
                ctx.set_kv_value("l", "1");
                park!(ctx)
            }
        ),
        mutation!(
            "changes a value",
            "kv set mismatch",
            [],
            |ctx| {
                ctx.set_kv_value("k", "1");
                park!(ctx)
            },
            {
                ctx.set_kv_value("k", "2");
                park!(ctx)
            }
        ),
        mutation!(
            "removes a write",
            "kv set mismatch",
            [],
            |ctx| {
                ctx.set_kv_value("k", "1");
                park!(ctx)
            },
            { park!(ctx) }
        ),
        mutation!(
            "removes a write when nothing else is asked for",
            "kv set mismatch",
            [completed(3, "")],
            |ctx| {
                let _open = ctx.schedule_wait("park");
                ctx.schedule_activity("A", "").await?;
                ctx.set_kv_value("k", "1");
                std::future::pending::<()>().await
            },
            {
                let _open = ctx.schedule_wait("park");
                ctx.schedule_activity("A", "").await?;
                std::future::pending::<()>().await
            }
        ),
        mutation!(
            "clears another key",
            "kv clear mismatch",
            [],
            |ctx| {
                ctx.clear_kv_value("k");
                park!(ctx)
            },
            {
                ctx.clear_kv_value("l");
                park!(ctx)
            }
        ),
        mutation!(
            "clears one key instead of all",
            "kv clear_all mismatch",
            [],
            |ctx| {
                ctx.clear_all_kv_values();
                park!(ctx)
            },
            {
                ctx.clear_kv_value("k");
                park!(ctx)
            }
        ),
        mutation!(
            "swaps a status and a write",
            "custom status mismatch",
            [],
            |ctx| {
                ctx.set_custom_status("s");
                ctx.set_kv_value("k", "1");
                park!(ctx)
            },
            {
                ctx.set_kv_value("k", "1");
                ctx.set_custom_status("s");
                park!(ctx)
            }
        ),
        mutation!(
            "removes a status",
            "custom status mismatch",
            [],
            |ctx| {
                ctx.set_custom_status("s");
                park!(ctx)
            },
            { park!(ctx) }
        ),
        mutation!(
            "asks for a time instead of an id",
            "schedule mismatch",
            [],
            |ctx| {
                ctx.new_guid().await?;
                park!(ctx)
            },
            {
                ctx.utc_now().await?;
                park!(ctx)
            }
        ),
    ]
}

fn endings() -> Vec<Mutation> {
    vec![
        mutation!(
            "returns early",
            "history schedule but no emitted action",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            { ctx.schedule_activity("A", "").await? }
        ),
        mutation!(
            "fails early",
            "history schedule but no emitted action",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                Err("early".to_owned())?
            }
        ),
        mutation!(
            "continues as new early",
            "history schedule but no emitted action",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                return ctx.continue_as_new("early").await;
            }
        ),
        mutation!(
            "panics early",
            "history schedule but no emitted action",
            [completed(2, "")],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                panic!("early")
            }
        ),
        mutation!(
            "keeps an activity that was dropped",
            "cancellation mismatch (activities)",
            [completed(2, "")],
            |ctx| {
                let (a, b) = (
                    ctx.schedule_activity("A", ""),
                    ctx.schedule_activity("B", ""),
                );
                ctx.select2(a, b).await;
                park!(ctx)
            },
            {
                let (a, _b) = (
                    ctx.schedule_activity("A", ""),
                    ctx.schedule_activity("B", ""),
                );
                a.await?;
                park!(ctx)
            }
        ),
        mutation!(
            "keeps a child that was dropped",
            "cancellation mismatch (sub-orchestrations)",
            [completed(2, "")],
            |ctx| {
                let (a, b) = (
                    ctx.schedule_activity("A", ""),
                    ctx.schedule_sub_orchestration("B", ""),
                );
                ctx.select2(a, b).await;
                park!(ctx)
            },
            {
                let (a, _b) = (
                    ctx.schedule_activity("A", ""),
                    ctx.schedule_sub_orchestration("B", ""),
                );
                a.await?;
                park!(ctx)
            }
        ),
        mutation!(
            "keeps a wait that was dropped",
            "cancellation mismatch (external waits)",
            [completed(2, "")],
            |ctx| {
                let (a, b) = (ctx.schedule_activity("A", ""), ctx.schedule_wait("s"));
                ctx.select2(a, b).await;
                park!(ctx)
            },
            {
                let (a, _b) = (ctx.schedule_activity("A", ""), ctx.schedule_wait("s"));
                a.await?;
                park!(ctx)
            }
        ),
        mutation!(
            "keeps a dequeue that was dropped",
            "cancellation mismatch (persistent waits)",
            [completed(2, "")],
            |ctx| {
                let (a, b) = (ctx.schedule_activity("A", ""), ctx.dequeue_event("q"));
                ctx.select2(a, b).await;
                park!(ctx)
            },
            {
                let (a, _b) = (ctx.schedule_activity("A", ""), ctx.dequeue_event("q"));
                a.await?;
                park!(ctx)
            }
        ),
    ]
}

fn all() -> Vec<Mutation> {
    let lists = [activities(), waits(), children(), values(), endings()];
    lists.into_iter().flatten().collect()
}

/// The instance as the code before the change left it.
fn recorded(mutation: &Mutation) -> World {
    let mut world = World::with_handler(Arc::clone(&mutation.before));
    world.turn(vec![]);
    if !mutation.messages.is_empty() {
        world.turn(mutation.messages.clone());
    }
    assert!(!world.is_over(), "{}: {:?}", mutation.name, world.kinds());
    world
}

#[test]
fn every_forbidden_change_of_code_is_noticed() {
    let mutations = all();
    assert!(mutations.len() >= 50, "{}", mutations.len());
    for mutation in mutations {
        let mut world = recorded(&mutation);
        let events = world.history.len();
        world.redeploy(Arc::clone(&mutation.after));
        let Err(report) = world.try_turn(vec![]) else {
            panic!("not noticed: the change {}", mutation.name);
        };
        let text = format!("the change {}: {report}", mutation.name);
        assert!(report.headline.starts_with(mutation.headline), "{text}");
        assert!(
            report.event_id.is_some() && report.recorded.is_some(),
            "{text}"
        );
        if let Some(location) = &report.location {
            assert!(location.contains("mutations.rs"), "{text}");
        }
        assert_eq!(world.history.len(), events, "a divergence commits nothing");
    }
}

#[test]
fn unchanged_code_is_never_suspected() {
    for mutation in all() {
        let mut world = recorded(&mutation);
        world.redeploy(Arc::clone(&mutation.before));
        let turn = world.try_turn(vec![]);
        let turn = turn.unwrap_or_else(|d| panic!("false alarm for {}: {d}", mutation.name));
        assert!(turn.events.is_empty(), "{}", mutation.name);
    }
}

#[test]
fn changes_that_the_rules_allow_are_accepted() {
    let allowed = [
        mutation!(
            "changes the duration of a timer",
            "",
            [],
            |ctx| { ctx.schedule_timer(SECOND).await },
            { ctx.schedule_timer(SECOND * 9).await }
        ),
        mutation!(
            "changes the text of a status",
            "",
            [],
            |ctx| {
                ctx.set_custom_status("old");
                park!(ctx)
            },
            {
                ctx.set_custom_status("new");
                park!(ctx)
            }
        ),
        mutation!(
            "clears keys in another order",
            "",
            [],
            |ctx| {
                ctx.clear_kv_value("a");
                ctx.clear_kv_value("b");
                park!(ctx)
            },
            {
                ctx.clear_kv_value("b");
                ctx.clear_kv_value("a");
                park!(ctx)
            }
        ),
        mutation!(
            "asks for more at the end",
            "",
            [],
            |ctx| { ctx.schedule_activity("A", "").await? },
            {
                let more = ctx.schedule_activity("A", "");
                let _timer = ctx.schedule_timer(SECOND);
                more.await?
            }
        ),
        mutation!(
            "goes on differently after what is not answered yet",
            "",
            [],
            |ctx| {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("B", "").await?
            },
            {
                ctx.schedule_activity("A", "").await?;
                ctx.schedule_activity("Z", "").await?
            }
        ),
    ];
    for mutation in allowed {
        let mut world = recorded(&mutation);
        world.redeploy(Arc::clone(&mutation.after));
        if let Err(report) = world.try_turn(vec![]) {
            panic!("the change {} is allowed: {report}", mutation.name);
        }
    }
}
