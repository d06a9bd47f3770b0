//! The handlers behind this engine's own recorded histories, one per feature, and how each is recorded.
//!
//! Every orchestration is named after its case. Activities give the same answer for the same input; `hold` answers only
//! when it is cancelled.

mod activities;
mod carried;
mod changed;
mod children;
mod combining;
mod endings;
mod lasting;
mod recorder;
mod replaying;
mod rewound;
mod state;
mod typed;
mod waiting;

use std::time::Duration;

use duroxide::{
    ActivityContext, ActivityRegistry, OrchestrationRef, OrchestrationRegistry,
    OrchestrationRegistryBuilder, Start,
};

type Outcome = Result<String, String>;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// One thing that happens to an instance from outside.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Virtual time passes.
    Pass(Duration),
    Raise(&'static str, &'static str),
    Post(&'static str, &'static str),
    Cancel(&'static str),
    Terminate(&'static str),
    /// An operator retries the first execution, from the point of failure or from this event.
    Retry,
    RetryFrom(u64),
}

/// The start of a case.
type Beginning = Start<OrchestrationRef<String, String>>;

/// One recorded history: which orchestration, with which input, and what happens to it.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    version: Option<&'static str>,
    /// The id of the request that asks for it.
    request: Option<&'static str>,
    input: &'static str,
    /// What its start carries beside its input.
    begun: fn(Beginning) -> Beginning,
    steps: &'static [Step],
    /// The history is recorded while the instance still waits.
    stays_open: bool,
}

const fn case(name: &'static str, input: &'static str) -> Case {
    Case {
        name,
        version: None,
        request: None,
        input,
        begun: std::convert::identity,
        steps: &[],
        stays_open: false,
    }
}

impl Case {
    const fn steps(mut self, steps: &'static [Step]) -> Self {
        self.steps = steps;
        self
    }

    const fn begun(mut self, with: fn(Beginning) -> Beginning) -> Self {
        self.begun = with;
        self
    }

    const fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    const fn asked_by(mut self, request: &'static str) -> Self {
        self.request = Some(request);
        self
    }

    const fn stays_open(mut self) -> Self {
        self.stays_open = true;
        self
    }
}

fn cases() -> impl Iterator<Item = Case> {
    [
        activities::CASES,
        waiting::CASES,
        children::CASES,
        state::CASES,
        combining::CASES,
        endings::CASES,
        typed::CASES,
        rewound::CASES,
        carried::CASES,
        lasting::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

fn orchestrations() -> OrchestrationRegistry {
    let parts: [fn(OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder; 10] = [
        activities::register,
        waiting::register,
        children::register,
        state::register,
        combining::register,
        endings::register,
        typed::register,
        rewound::register,
        carried::register,
        lasting::register,
    ];
    let builder = OrchestrationRegistry::builder();
    let builder = parts.into_iter().fold(builder, |builder, add| add(builder));
    builder.build_result().expect("names are distinct")
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .register("refuse", |_: ActivityContext, input: String| async move {
            Err::<String, _>(format!("refused: {input}"))
        })
        .register("crash", |_: ActivityContext, input: String| async move {
            assert!(input.is_empty(), "broken by {input}");
            Ok(input)
        })
        .register("hold", |ctx: ActivityContext, _: String| async move {
            ctx.cancelled().await;
            Ok("released".to_owned())
        })
        .register("third_time", |ctx: ActivityContext, _: String| async move {
            // The n-th attempt is another activity each time; its id tells how many came before.
            if ctx.activity_id() < 10 {
                return Err(format!("activity {} failed", ctx.activity_id()));
            }
            Ok("third time lucky".to_owned())
        })
        .register(
            "second_time",
            |ctx: ActivityContext, input: String| async move {
                let works = ctx.execution_id() > 1;
                works.then_some(input).ok_or("not at first".to_owned())
            },
        )
        .register(
            "whereabouts",
            |ctx: ActivityContext, input: String| async move {
                let session = ctx.session_id().unwrap_or("none");
                let tag = ctx.tag().unwrap_or("none");
                Ok(format!("{input} session={session} tag={tag}"))
            },
        )
        .register(
            "traceparent",
            |ctx: ActivityContext, input: String| async move {
                let trace = ctx.trace_context().ok_or("it belongs to a trace")?;
                Ok(format!("{input} {}", trace.traceparent()))
            },
        )
        .register_typed("add", |_: ActivityContext, (a, b): (i64, i64)| async move {
            Ok(a + b)
        })
        .build_result()
        .expect("names are distinct")
}
