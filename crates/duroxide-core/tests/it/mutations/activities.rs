//! Activities renamed, moved, added and removed.

use super::{Mutation, SECOND};
use crate::history::{completed, signal};
use crate::world::handler;

pub(super) fn activities() -> Vec<Mutation> {
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
