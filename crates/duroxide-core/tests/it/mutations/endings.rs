//! Ends that come too early, and drops that no longer happen.

use super::Mutation;
use crate::history::completed;
use crate::world::handler;

pub(super) fn endings() -> Vec<Mutation> {
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
                ctx.continue_as_new("early").await?;
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
                assert!(ctx.instance_id().is_empty(), "early")
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
