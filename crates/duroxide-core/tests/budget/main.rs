//! What a step of an orchestration may allocate. In: programs that take the same step for ever. Out: counts, which are
//! the same on every machine, compared with each other and with a budget. A change that pays more for a step shows here
//! before it shows in a benchmark.
//!
//! This is a program of its own because what counts is the allocator of the whole process.

use std::collections::HashMap;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use duroxide_core::replay::{Execution, ExecutionStart, HostRequest, Progress, TurnLimits};
use duroxide_core::{
    ActivityRef, Event, FnOrchestration, OrchestrationContext, OrchestrationHandler, WorkItem,
};

const STEPS: u64 = 100;
const MEASURE: ActivityRef<String, u64> = ActivityRef::new("measure");

/// An execution in memory, as a dispatcher keeps it between two turns.
struct Kept {
    execution: Execution,
    history: Vec<Event>,
}

fn handler<F, Fut>(code: F) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    Arc::new(FnOrchestration(code))
}

impl Kept {
    fn begin(code: Arc<dyn OrchestrationHandler>, input: &str) -> Self {
        let start = ExecutionStart {
            instance: "i".to_owned(),
            execution_id: 1,
            name: "budget".to_owned(),
            version: "1.0.0".to_owned(),
            input: input.to_owned(),
            ..ExecutionStart::default()
        };
        let mut kept = Self {
            execution: Execution::begin(start, code, HashMap::new(), 1),
            history: Vec::new(),
        };
        kept.turn(Vec::new());
        kept
    }

    /// One turn: what came, and what the code decides.
    fn turn(&mut self, messages: Vec<WorkItem>) {
        self.execution.start_turn(1, messages);
        let turn = loop {
            match self.execution.advance(&TurnLimits::default(), true) {
                Progress::Done(turn) => break turn,
                Progress::NeedsHost(calls) => {
                    for call in calls {
                        assert!(matches!(call.request, HostRequest::RunInPlace { .. }));
                        self.execution.answer_host(&call, Ok("7".to_owned()));
                    }
                }
            }
        };
        self.history = turn.events;
    }

    /// A turn that brings the result of the activity that the last one asked for.
    fn answer(&mut self) {
        let asked = self.history.last().map_or(0, |event| event.event_id);
        let result = WorkItem::ActivityCompleted {
            instance: "i".to_owned(),
            execution_id: 1,
            id: asked,
            result: "7".to_owned(),
        };
        self.turn(vec![result]);
    }

    /// What so many answered steps allocate, after as many that are not counted.
    fn steps(mut self, before: u64) -> AllocationInfo {
        for _ in 0..before {
            self.answer();
        }
        measure(|| {
            for _ in 0..STEPS {
                self.answer();
            }
        })
    }
}

fn typed() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, input| async move {
        loop {
            ctx.call(MEASURE, &input).await?;
        }
    })
}

fn published() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, input| async move {
        loop {
            let _bytes: u64 = ctx.schedule_activity_typed("measure", &input).await?;
        }
    })
}

#[test]
fn a_typed_call_allocates_no_more_than_a_published_one() {
    let typed = Kept::begin(typed(), "some text").steps(10);
    let published = Kept::begin(published(), "some text").steps(10);
    assert!(
        typed.count_total <= published.count_total,
        "typed {typed:?}, published {published:?}"
    );
}

#[test]
fn a_step_stays_within_its_budget() {
    let step = Kept::begin(typed(), "some text").steps(10);
    let each = step.count_total / STEPS;
    assert!(each <= 32, "{each} allocations for a call and its answer");
    let bytes = step.bytes_total / STEPS;
    assert!(bytes <= 3_600, "{bytes} bytes for a call and its answer");
}

#[test]
fn a_step_allocates_the_same_however_long_the_history_is() {
    let early = Kept::begin(typed(), "some text").steps(100);
    let late = Kept::begin(typed(), "some text").steps(10_000);
    // A table that doubles now and then is all that may differ.
    let (early, late) = (early.count_total, late.count_total);
    assert!(late <= early + STEPS / 10, "{early} early, {late} late");
}

#[test]
fn an_input_is_copied_five_times_at_most() {
    let bytes = |length: usize| {
        let input = "x".repeat(length);
        Kept::begin(typed(), &input).steps(10).bytes_total / STEPS
    };
    let (small, large) = (1_024, 65_536);
    let copies = (bytes(large) - bytes(small)) as f64 / (large - small) as f64;
    assert!(copies <= 5.1, "an input is copied {copies:.2} times");
}

#[test]
fn an_effect_in_place_allocates_less_than_an_activity() {
    let effects = handler(|ctx, _input| async move {
        loop {
            ctx.call(MEASURE, "go").await?;
            for _ in 0..STEPS {
                ctx.run("seven", || async { Ok::<u64, String>(7) }).await?;
            }
        }
    });
    let mut kept = Kept::begin(effects, "");
    let in_place = measure(|| {
        let asked = 2;
        let result = WorkItem::ActivityCompleted {
            instance: "i".to_owned(),
            execution_id: 1,
            id: asked,
            result: "7".to_owned(),
        };
        kept.turn(vec![result]);
    });
    let activities = Kept::begin(typed(), "some text").steps(10);
    assert!(
        in_place.count_total < activities.count_total,
        "in place {in_place:?}, activities {activities:?}"
    );
}
