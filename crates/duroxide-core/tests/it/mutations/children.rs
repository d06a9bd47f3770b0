//! Children and detached starts.

use super::Mutation;
use crate::history::{child_completed, completed};
use crate::world::handler;

pub(super) fn children() -> Vec<Mutation> {
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
