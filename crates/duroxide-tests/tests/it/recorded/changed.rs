//! Changed code against these histories: what the rules forbid is refused, what they allow fits.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide::providers::fold_key_values;
use duroxide::{
    ActivityRef, Event, EventKind, OrchestrationContext, OrchestrationHandler, OrchestrationRef,
    ParentClose, Retry,
};
use duroxide_core::FnOrchestration;
use duroxide_core::replay::{Divergence, Execution};

use super::carried::LABELLED;
use super::lasting::THIRD_TIME;
use super::replaying::recorded;
use super::{HOUR, MINUTE, Outcome, SECOND, orchestrations};
use crate::histories::{handler_of, is_decision};

const ECHO: ActivityRef<String, String> = ActivityRef::new("echo");
const HOLD: ActivityRef<String, String> = ActivityRef::new("hold");
const WHEREABOUTS: ActivityRef<String, String> = ActivityRef::new("whereabouts");
const SLEEPER: OrchestrationRef<String, String> = OrchestrationRef::new("sleeper");

type Code = Arc<dyn OrchestrationHandler>;

/// Replays all executions of an instance, each by the code that is chosen for it.
fn replay(
    executions: &[Vec<Event>],
    code: impl Fn(&[Event]) -> Code,
) -> Vec<Result<(), Divergence>> {
    let mut kv = HashMap::new();
    let each = executions.iter().map(|history| {
        let loaded = Execution::load(history, code(history), kv.clone()).map(drop);
        fold_key_values(&mut kv, history);
        loaded
    });
    each.collect()
}

/// Code with a question in front of it.
struct AskingFirst(Code);

#[async_trait]
impl OrchestrationHandler for AskingFirst {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Outcome {
        ctx.schedule_wait("a change").await;
        self.0.invoke(ctx, input).await
    }
}

#[test]
fn a_question_in_front_of_the_code_fits_no_history_in_which_the_code_decided_something() {
    let registry = orchestrations();
    let mut refused = 0;
    for (at, executions) in recorded() {
        let answers = replay(&executions, |history| {
            Arc::new(AskingFirst(handler_of(&registry, history)))
        });
        for (history, answer) in executions.iter().zip(answers) {
            if history.iter().any(is_decision) {
                assert!(answer.is_err(), "{at}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Whether code that no longer asks for a patch fits a history that has it.
fn is_patch(event: &Event) -> bool {
    matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name.ends_with(":patched"))
}

#[test]
fn no_decision_of_these_histories_may_be_another_one() {
    let registry = orchestrations();
    for (at, executions) in recorded() {
        for place in 0..executions.len() {
            let decisions = executions[place].iter().enumerate();
            let decisions = decisions.filter(|(_, event)| is_decision(event) && !is_patch(event));
            for (index, event) in decisions {
                let mut changed = executions.clone();
                changed[place][index].kind = EventKind::ExternalSubscribed {
                    name: "a change".to_owned(),
                };
                let answers = replay(&changed, |history| handler_of(&registry, history));
                assert!(answers[place].is_err(), "{at}, {event:?}");
            }
        }
    }
}

/// Whether code fits the history of a case.
fn fits<F, Fut>(case: &str, code: F) -> Result<(), Divergence>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let all = recorded();
    let executions = &all[&format!("{case} / {case}")];
    let code: Code = Arc::new(FnOrchestration(code));
    let answers = replay(executions, |_| Arc::clone(&code));
    answers.into_iter().collect()
}

/// Asserts that code does not fit, and that the report names what the record has.
#[track_caller]
fn refused(answer: Result<(), Divergence>, recorded: &str) {
    let report = answer.expect_err("the code decides something else");
    let report = report.to_string();
    assert!(report.contains(recorded), "{report}");
}

#[test]
fn a_label_that_is_not_set_is_missed() {
    let without = fits("typed_labels", |ctx, input| async move {
        let child = ctx.child(LABELLED, &input).id("child-1");
        Ok(child.await?)
    });
    refused(without, "stage");
    let of_another_child = fits("typed_labels", |ctx, input| async move {
        ctx.set_label("stage", "asked");
        let child = ctx.child(LABELLED, &input).id("another");
        Ok(child.label("asked-by", "typed_labels").await?)
    });
    refused(of_another_child, "child-1");
}

#[test]
fn a_call_on_another_session_is_another_call() {
    let elsewhere = fits("typed_session", |ctx, input| async move {
        let call = ctx.call(WHEREABOUTS, &input).session("s-8").tag("gpu");
        Ok(call.await?)
    });
    refused(elsewhere, "s-7");
}

#[test]
fn a_limit_of_a_call_may_change_and_its_activity_may_not() {
    let limited = |activity: ActivityRef<String, String>, limit| {
        fits("typed_heartbeat_timeout", move |ctx, input| async move {
            let call = ctx.call(activity, &input).heartbeat_timeout(limit);
            let held = call.retry(Retry::fixed(2, MINUTE)).await;
            Ok(format!("{:?}", held.is_err()))
        })
    };
    limited(HOLD, HOUR).unwrap();
    refused(limited(ECHO, SECOND), "hold");
    let once = fits("typed_heartbeat_timeout", |ctx, input| async move {
        Ok(ctx.call(HOLD, &input).heartbeat_timeout(SECOND).await?)
    });
    refused(once, "TimerCreated");
}

#[test]
fn a_request_is_answered_by_the_execution_that_answered_it() {
    let at_once = fits("typed_request_handed_on", |ctx, _| async move {
        let request = ctx.requests::<u64, String>("ask").next().await;
        ctx.reply(request, &"at once".to_owned());
        ctx.continue_as_new("null").await
    });
    refused(at_once, "TimerCreated");
}

#[test]
fn an_effect_in_place_keeps_its_name_and_its_place() {
    let renamed = fits("typed_in_place", |ctx, _| async move {
        let work = ctx.run("whisper", || async { Ok::<_, String>("x".to_owned()) });
        Ok(work.await?)
    });
    refused(renamed, "shout");
    let as_an_activity = fits("typed_in_place", |ctx, input| async move {
        Ok(ctx.call(ECHO, &input).await?)
    });
    refused(as_an_activity, "shout");
}

#[test]
fn a_patch_may_be_deprecated_and_removed_while_its_steps_stay() {
    let steps = |deprecates: bool, steps: &'static [&'static str]| {
        fits("typed_patched", move |ctx, input| async move {
            if deprecates {
                ctx.deprecate_patch("one");
                ctx.deprecate_patch("two");
            }
            let mut way = String::new();
            for step in steps {
                way = ctx.call(ECHO, format!("{way}{step} ")).await?;
            }
            Ok(format!("{way}{input}"))
        })
    };
    steps(true, &["one", "two", "one"]).unwrap();
    steps(false, &["one", "two", "one"]).unwrap();
    refused(steps(true, &["one", "one"]), "two");
    refused(steps(false, &[]), "one");
}

#[test]
fn what_becomes_of_a_child_may_change_and_which_child_it_is_may_not() {
    let returning = |ids: [&'static str; 3], close: ParentClose| {
        fits(
            "typed_children_of_a_parent_that_returns",
            move |ctx, input| async move {
                let child = |id| ctx.child(SLEEPER, &input).id(id).on_parent_close(close);
                let _open = ids.map(child);
                ctx.sleep(SECOND).await;
                Ok("done".to_owned())
            },
        )
    };
    for close in [ParentClose::Request, ParentClose::Cancel] {
        returning(["asked", "terminated", "left alone"], close).unwrap();
    }
    let other = returning(["asked", "another", "left alone"], ParentClose::Request);
    refused(other, "terminated");
}

#[test]
fn a_child_is_tried_again_as_often_as_it_was() {
    let tried = |attempts, pause| {
        fits("typed_child_retried", move |ctx, input| async move {
            let policy = Retry::fixed(attempts, pause);
            let chosen = ctx.child(THIRD_TIME, &input).id("chosen").retry(policy);
            let chosen = chosen.await?;
            let policy = Retry::fixed(2, SECOND).total(HOUR);
            let generated = ctx.child(THIRD_TIME, &input).retry(policy).await;
            Ok(format!("{chosen}, {generated:?}"))
        })
    };
    tried(5, SECOND).unwrap(); // how long a pause was is what the record says
    refused(tried(2, MINUTE), "TimerCreated");
    let unnamed = fits("typed_child_retried", |ctx, input| async move {
        let child = ctx.child(THIRD_TIME, &input).retry(Retry::fixed(3, MINUTE));
        Ok(child.await?)
    });
    refused(unnamed, "chosen");
}

#[test]
fn what_a_request_to_cancel_finds_is_what_it_found() {
    let without_a_saga = fits("typed_saga_undone_by_a_request", |ctx, _| async move {
        for step in ["one", "two"] {
            ctx.call(ECHO, step).await?;
        }
        let rest = ctx.cancellable(ctx.sleep(HOUR)).await;
        Ok(format!("{rest:?}"))
    });
    refused(without_a_saga, "undo two");
    let exposed = fits("typed_shielded", |ctx, input| async move {
        let rest = ctx.cancellable(ctx.sleep(SECOND)).await;
        Ok(format!("{input} {rest:?}"))
    });
    refused(exposed, "echo");
}
