//! What the orchestrations of a run do. Every activity writes its effect down before it answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ActivityOptions, BackoffStrategy, Either2, OrchestrationContext,
    OrchestrationRegistry, RetryPolicy,
};

use crate::check::{Effect, key};
use crate::deadly;
use crate::ledger::{Ledger, now_ms};
use crate::life;
use crate::ops::{BY, MESSAGES, Op};
use crate::skills::{Skills, TAG, VERSIONS};

/// What an instance says when it waits for its signal.
pub(crate) const WAITS: &str = "waits";

/// The effects of this life, numbered.
pub(crate) struct Effects {
    ledger: Ledger,
    violations: Ledger,
    numbers: AtomicU64,
    serves_tag: bool,
}

impl Effects {
    pub(crate) fn new(folder: &Path, skills: &Skills) -> Self {
        Self {
            ledger: Ledger::open(&folder.join("effects")),
            violations: Ledger::open(&folder.join("violations")),
            numbers: AtomicU64::new(1),
            serves_tag: skills.serves_tag,
        }
    }

    fn write(&self, ctx: &ActivityContext, name: &str) {
        let effect = Effect {
            key: key(ctx.instance_id(), ctx.execution_id(), ctx.activity_id()),
            name: name.to_owned(),
            life: life::number(),
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            at_ms: now_ms(),
        };
        if ctx.tag().is_some() && !self.serves_tag {
            let what = format!("a life that does not serve its tag ran {}", effect.line());
            self.violations.write(&what);
        }
        self.ledger.write(&effect.line());
    }
}

pub(crate) fn activities(effects: &Arc<Effects>) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder();
    for (name, answer) in [("debit", "debited"), ("credit", "credited"), ("tell", "")] {
        let effects = Arc::clone(effects);
        builder = builder.register(name, move |ctx: ActivityContext, input: String| {
            let effects = Arc::clone(&effects);
            async move {
                effects.write(&ctx, name);
                Ok(if answer.is_empty() {
                    input
                } else {
                    answer.to_owned()
                })
            }
        });
    }
    let written = Arc::clone(effects);
    builder = builder.register("late", move |ctx: ActivityContext, _: String| {
        let effects = Arc::clone(&written);
        async move {
            effects.write(&ctx, "late");
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(String::new())
        }
    });
    let deadly = Arc::clone(effects);
    builder = builder.register(
        deadly::DEADLY_ACTIVITY,
        move |ctx: ActivityContext, _: String| {
            deadly.write(&ctx, deadly::DEADLY_ACTIVITY);
            deadly::die()
        },
    );
    let effects = Arc::clone(effects);
    builder = builder.register("second-time", move |ctx: ActivityContext, _: String| {
        effects.write(&ctx, "second-time");
        // The key is that of the first attempt.
        let own = format!("/{}", ctx.activity_id());
        let is_first = ctx.idempotency_key().ends_with(&own);
        async move {
            if is_first {
                Err("not the first time".to_owned())
            } else {
                Ok(String::new())
            }
        }
    });
    builder.build()
}

pub(crate) fn orchestrations(skills: &Skills) -> OrchestrationRegistry {
    let mut builder = OrchestrationRegistry::builder()
        .register("probe", |_: OrchestrationContext, _: String| async {
            Ok(String::new())
        })
        .register(
            "child",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("tell", format!("child of {input}"))
                    .await
            },
        )
        .register("guarded", guarded)
        .register(deadly::ACTIVITY, deadly::waits_for_death)
        .register(deadly::TURN, deadly::dies);
    for version in skills.versions() {
        let handler = move |ctx: OrchestrationContext, input: String| transfer(ctx, input, version);
        builder = builder.register_versioned("transfer", version, handler);
    }
    builder.build()
}

fn count_round(ctx: &OrchestrationContext) {
    let rounds = ctx
        .get_kv_value("rounds")
        .and_then(|text| text.parse::<u32>().ok());
    ctx.set_kv_value("rounds", (rounds.unwrap_or(0) + 1).to_string());
}

/// Activities (one of a session, three at once, one that is cancelled, one that is tried twice, in some instances one
/// with a tag), timers, key-values, a status and a child; then, after continue-as-new, a signal and messages from a
/// queue.
async fn transfer(
    ctx: OrchestrationContext,
    input: String,
    version: &str,
) -> Result<String, String> {
    if input.is_empty() {
        if version != VERSIONS[0] {
            // Where the versions differ: code of the other one does not fit this history.
            ctx.schedule_timer(Duration::from_millis(1)).await;
        }
        if Op::of(&ctx.instance_id()).is_some_and(|op| op.is_tagged) {
            let tagged = ActivityOptions::new().with_tag(TAG);
            ctx.schedule_activity_with_options("tell", "tagged", tagged)
                .await?;
        }
        let debited = ctx.schedule_activity("debit", "").await?;
        ctx.schedule_timer(Duration::from_millis(5)).await;
        count_round(&ctx);
        ctx.set_custom_status("credits");
        let session = ActivityOptions::new().on_session(ctx.instance_id());
        let credited = ctx
            .schedule_activity_with_options("credit", "", session)
            .await?;
        let answers = (0..3).map(|n| ctx.schedule_activity("tell", n.to_string()));
        let answers = ctx.join(answers.collect()).await;
        if !answers
            .into_iter()
            .eq(["0", "1", "2"].map(|n| Ok(n.to_owned())))
        {
            return Err("a fan-out came back in disorder".to_owned());
        }
        // The loser is cancelled, whether it has begun or not.
        let late = ctx.schedule_activity("late", "");
        ctx.select2(late, ctx.schedule_timer(Duration::from_millis(1)))
            .await;
        let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
            delay: Duration::from_millis(2),
        });
        ctx.schedule_activity_with_retry("second-time", "", policy)
            .await?;
        let child = ctx
            .schedule_sub_orchestration("child", ctx.instance_id())
            .await?;
        return ctx
            .continue_as_new(format!("{debited}, {credited}, {child}"))
            .await;
    }
    count_round(&ctx);
    let round = ctx
        .schedule_activity("tell", format!("round {}", ctx.execution_id()))
        .await?;
    // In one turn: who sees the status knows that the wait is recorded.
    ctx.set_custom_status(WAITS);
    let signal = ctx.schedule_wait("go").await;
    let mut messages = Vec::new();
    for _ in 0..MESSAGES {
        messages.push(ctx.dequeue_event("mail").await);
    }
    let messages = messages.join("+");
    Ok(format!(
        "{}{BY}{version}: {input}, {round}, {signal}, {messages}",
        ctx.instance_id()
    ))
}

/// Waits for a signal that nobody sends. Asked to cancel, it puts right what it did.
async fn guarded(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let asked = ctx.cancellation_requested();
    ctx.schedule_activity("debit", "").await?;
    ctx.set_custom_status(WAITS);
    match ctx.select2(ctx.schedule_wait("paid"), asked).await {
        Either2::First(receipt) => Ok(receipt),
        Either2::Second(reason) => {
            ctx.schedule_activity("credit", "").await?;
            ctx.set_kv_value("undone", "yes");
            Err(reason)
        }
    }
}
