//! Key-values, status and questions to the host.

use super::Mutation;
use crate::history::completed;
use crate::world::handler;

pub(super) fn values() -> Vec<Mutation> {
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
