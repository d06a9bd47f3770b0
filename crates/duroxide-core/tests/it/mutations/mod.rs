//! Changed code meets a history that the code before the change recorded. Every change that the rules forbid is
//! noticed, and unchanged code is never suspected.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{OrchestrationHandler, WorkItem};

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
            before: handler(|$ctx, _| async move {
                let _ = &$ctx;
                $before;
                Ok(String::new())
            }),
            after: handler(|$ctx, _| async move {
                let _ = &$ctx;
                $after;
                Ok(String::new())
            }),
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

mod activities;
mod children;
mod endings;
mod values;
mod waits;

fn all() -> Vec<Mutation> {
    let lists = [
        activities::activities(),
        waits::waits(),
        children::children(),
        values::values(),
        endings::endings(),
    ];
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
            assert!(location.contains("mutations"), "{text}");
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
