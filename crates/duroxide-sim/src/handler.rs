//! The handler that runs programs. In: a program and how far it is. Out: what it returns, fails with or goes on with.

use std::time::Duration;

use duroxide_core::{Either2, OrchestrationContext};

use crate::operations::{self, begin, mail};
use crate::program::{
    AWAITED, Ending, Job, ORCHESTRATION, Op, QUEUE, REQUEST, Run, Step, TAKEN, VERSIONS,
};

/// Runs a program, as the handler of this version.
///
/// # Errors
///
/// The failure that the program ends with.
pub async fn run(
    ctx: OrchestrationContext,
    input: String,
    version: usize,
) -> Result<String, String> {
    let run: Run = serde_json::from_str(&input).map_err(|e| format!("not a program: {e}"))?;
    if !run.program.cooperative {
        return body(&ctx, run, version).await;
    }
    let label = format!("{}.put-right", run.path);
    let asked = ctx.cancellation_requested();
    match ctx.select2(body(&ctx, run, version), asked).await {
        Either2::First(ended) if ctx.cancel_reason().is_none() => ended,
        Either2::First(_) | Either2::Second(_) => {
            let seen = begin(&ctx, &Op::Work(Job::Slow(1_500)), &label).await;
            Err(format!("put right: {seen}"))
        }
    }
}

async fn body(ctx: &OrchestrationContext, mut run: Run, version: usize) -> Result<String, String> {
    if version == 1 {
        let label = format!("{}.{}v2", run.path, run.at);
        let seen = begin(ctx, &Op::Work(Job::Quick), &label).await;
        run.log.push_str(&seen);
    }
    while let Some(step) = run.program.steps.get(run.at).cloned() {
        let label = format!("{}.{}", run.path, run.at);
        run.at += 1;
        if step == Step::Continue {
            let version = VERSIONS[run.program.version];
            return ctx.continue_as_new_versioned(version, run.encode()).await;
        }
        let is_scope = matches!(step, Step::Shielded(_) | Step::Cancellable(_));
        let seen = take(ctx, &mut run, step, label).await;
        if is_scope && let Some(reason) = ctx.cancel_reason() {
            return Err(format!("cancelled in a scope: {reason}"));
        }
        run.log.push_str(&seen);
        run.log.push(';');
    }
    match run.program.ending {
        Ending::Returns => {
            let messages = run.queue_messages.join(",");
            Ok(format!("{}:{}{TAKEN}{messages}", run.life, run.log))
        }
        Ending::Fails => Err(format!("{}:{}", run.life, run.log)),
        Ending::FailsUntil(attempt) if attempt_of(&ctx.instance_id()) < attempt => {
            Err("not yet".to_owned())
        }
        Ending::FailsUntil(_) => Ok(format!("{}:{}{TAKEN}", run.life, run.log)),
        Ending::Waits => {
            ctx.schedule_wait("never").await;
            Err("a signal came that nobody sent".to_owned())
        }
    }
}

/// Which attempt a child is that is started again when it fails: the id of the second one ends with `~2`.
fn attempt_of(instance: &str) -> u32 {
    let last = instance.rsplit_once('~').map(|(_, last)| last);
    last.and_then(|number| number.parse().ok()).unwrap_or(1)
}

async fn take(ctx: &OrchestrationContext, run: &mut Run, step: Step, label: String) -> String {
    match step {
        Step::Do(op) => begin(ctx, &op, &label).await,
        Step::All(ops) => {
            let ops = ops.iter().enumerate();
            let begun = ops.map(|(n, op)| begin(ctx, op, &format!("{label}j{n}")));
            ctx.join(begun.collect()).await.join("+")
        }
        Step::Wins(op) => {
            let never = ctx.schedule_wait(format!("never-{label}"));
            let op = begin(ctx, &op, &label);
            match ctx.select2(never, op).await.into_tuple() {
                (1, seen) => seen,
                (_, signal) => format!("a signal came that nobody sent: {signal}"),
            }
        }
        Step::Race(a, b) => {
            let (a, b) = (
                begin(ctx, &a, &format!("{label}a")),
                begin(ctx, &b, &format!("{label}b")),
            );
            ctx.select2(a, b).await;
            "raced".to_owned()
        }
        Step::Dropped(op) => {
            drop(begin(ctx, &op, &format!("{label}d")));
            "dropped".to_owned()
        }
        Step::Dequeue(count) => {
            for _ in 0..count {
                run.queue_messages.push(ctx.dequeue_event(QUEUE).await);
            }
            format!("{count} messages")
        }
        Step::Keyed(count) => operations::keyed(ctx, run.life, count).await,
        Step::DequeueOrTimer(ms) => {
            let timer = ctx.schedule_timer(Duration::from_millis(ms.into()));
            let first = ctx.select2(ctx.dequeue_event(QUEUE), timer).await;
            if let Either2::First(message) = first {
                run.queue_messages.push(message);
            }
            "message or timer".to_owned()
        }
        Step::OvertakenReader => {
            let older = ctx.dequeue_event(QUEUE);
            let second = ctx.dequeue_event(QUEUE).await;
            drop(older);
            // What the older reader would have got goes to the next.
            let first = ctx.dequeue_event(QUEUE).await;
            run.queue_messages.extend([first, second]);
            "overtaken".to_owned()
        }
        Step::Detach(program) => {
            let version = Some(VERSIONS[program.version].to_owned());
            let id = format!("d~{label}");
            let input = Run::new(run.life, format!("{label}~"), program).encode();
            ctx.schedule_orchestration_versioned(ORCHESTRATION, version, id, input);
            "detached".to_owned()
        }
        Step::KvAdd(n) => {
            let key = format!("k{n}");
            let old = ctx.get_kv_value(&key);
            let old: u64 = old.and_then(|text| text.parse().ok()).unwrap_or(0);
            ctx.set_kv_value(&key, (old + 1).to_string());
            format!("{key}={old}")
        }
        Step::KvClear(n) => {
            ctx.clear_kv_value(format!("k{n}"));
            format!("{} keys", ctx.get_kv_length())
        }
        Step::Status => {
            let old = ctx.get_custom_status();
            ctx.set_custom_status(format!("{}:{label}", run.life));
            old.unwrap_or_else(|| "none".to_owned())
        }
        Step::ResetStatus => {
            ctx.reset_custom_status();
            "reset".to_owned()
        }
        Step::Shielded(op) => ctx.shield(begin(ctx, &op, &label)).await,
        Step::Cancellable(op) => {
            let seen = ctx.cancellable(begin(ctx, &op, &label)).await;
            seen.unwrap_or_else(|cancelled| cancelled.to_string())
        }
        Step::Label(n) => {
            let key = format!("l{n}");
            let old = ctx.labels().remove(&key);
            ctx.set_label(key, label);
            old.unwrap_or_else(|| "none".to_owned())
        }
        Step::Unlabel(n) => {
            ctx.remove_label(&format!("l{n}"));
            format!("{} labels", ctx.labels().len())
        }
        Step::Mail(count) => mail(ctx, &label, count).await,
        Step::Await(program) => {
            let version = Some(VERSIONS[program.version].to_owned());
            let id = format!("d~{label}");
            let input = Run::new(run.life, format!("{label}~"), program).encode();
            ctx.schedule_orchestration_versioned(ORCHESTRATION, version, id.as_str(), input);
            let awaited = ctx.await_instance(AWAITED, id).await;
            awaited.unwrap_or_else(|_| "err".to_owned())
        }
        Step::Answer => {
            let request = ctx.requests::<u32, u32>(REQUEST).next().await;
            let reply = 2 * *request.value();
            ctx.reply(request, &reply);
            "answered".to_owned()
        }
        Step::Continue => "continued".to_owned(),
    }
}
