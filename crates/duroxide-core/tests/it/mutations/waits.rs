//! Signals, queues and timers.

use super::{Mutation, SECOND};
use crate::history::{fired, queue_message};
use crate::world::handler;

pub(super) fn waits() -> Vec<Mutation> {
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
            [queue_message("q", "1")],
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
