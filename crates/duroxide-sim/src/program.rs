//! Programs as data: what the simulated orchestrations do. In: a program, as the input of an instance. Out: a text that
//! depends on the program alone, whatever the timing and the faults; `model.rs` says which.
//!
//! Every operation has a label, its path in the program, so that its effects are recognised whatever its event id is.

use std::time::Duration;

use duroxide_core::{Either2, OrchestrationContext, OrchestrationRef};
use serde::{Deserialize, Serialize};

use crate::operations::{self, begin, mail};

/// The orchestration that runs programs.
pub const ORCHESTRATION: &str = "program";
/// The activity that every node has, and the one that some lack.
pub const WORK: &str = "work";
pub const RARE_WORK: &str = "rare-work";
pub const QUEUE: &str = "letters";
/// The queue of messages with keys.
pub const KEYED: &str = "keyed";
/// What clients ask for.
pub const REQUEST: &str = "double";
/// The orchestration with its types.
pub const AWAITED: OrchestrationRef<String, String> = OrchestrationRef::new(ORCHESTRATION);
/// What separates the text of a program that returned from the queue messages it took.
pub const LETTERS: &str = "|letters:";
pub const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];
/// A tag that only some workers serve.
pub const TAG: &str = "gpu";

/// What an activity does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    Quick,
    /// Takes this many milliseconds.
    Slow(u32),
    Fails,
    Panics,
    /// Fails this many times, and is tried until it does not.
    Flaky(u8),
    /// Ends only when it is told to; its caller gives up after a while.
    Stuck,
    /// Says this many times how far it is; a later attempt goes on from there.
    Beats(u8),
}

/// How long an activity takes between two heartbeats.
pub const BEAT_MS: u32 = 700;

/// A durable operation with one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Work(Job),
    Rare(Job),
    Tagged(Job),
    OnSession(u8, Job),
    Timer(u32),
    /// A signal that the client raises once it is waited for; only in roots.
    Signal,
    Child(Program),
    NamedChild(Program),
    /// A child that is started again when it fails, this many times in all.
    RetriedChild(Program, u8),
    /// A child under an id that is taken.
    Collide,
    Guid,
    Now,
    /// An effect in place, with a typed result, or a failure.
    InPlace(bool),
}

/// One step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Do(Op),
    All(Vec<Op>),
    /// An operation against one that never ends.
    Wins(Op),
    /// The first to be ready; the answer is not part of the output.
    Race(Op, Op),
    /// Scheduled and dropped in one turn.
    Dropped(Op),
    /// Takes this many queue messages; only in roots.
    Letters(u8),
    /// Takes this many queue messages that have keys, and come more than once; only in roots.
    Keyed(u8),
    /// Takes a queue message unless a timer is quicker; only in roots.
    LetterOrTimer(u32),
    /// Two readers of the queue, of which the older is dropped before it has read; only in roots.
    OvertakenReader,
    KvAdd(u8),
    KvClear(u8),
    Status,
    ResetStatus,
    Detach(Program),
    /// An operation that a request to cancel does not touch; the program ends after it if one came.
    Shielded(Op),
    /// An operation that a request to cancel cuts short; the program ends then.
    Cancellable(Op),
    /// Sets a label.
    Label(u8),
    Unlabel(u8),
    /// Sends itself this many messages and takes them.
    Mail(u8),
    /// Starts a program detached and awaits it all the same.
    Await(Program),
    /// Takes one request of its client and answers it; only in roots.
    Answer,
    Continue,
}

/// A whole program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    pub steps: Vec<Step>,
    pub ending: Ending,
    /// Holds a request to cancel and puts things right before it ends.
    pub cooperative: bool,
    /// Which version of the code runs it, as an index of [`VERSIONS`].
    pub version: usize,
}

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Ending {
    #[default]
    Returns,
    Fails,
    /// Never, unless it is cancelled.
    Waits,
    /// Fails until it is started for this many times.
    FailsUntil(u32),
}

/// A program on its way: the input of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which life of the instance id this is.
    pub life: u32,
    /// Names the program among all of its root.
    pub path: String,
    /// The step to go on with.
    pub at: usize,
    /// What was seen so far.
    pub log: String,
    /// Queue messages that were taken.
    pub letters: Vec<String>,
    pub program: Program,
}

impl Run {
    /// A program from its beginning.
    #[must_use]
    pub fn new(life: u32, path: impl Into<String>, program: Program) -> Self {
        Self {
            life,
            path: path.into(),
            at: 0,
            log: String::new(),
            letters: Vec::new(),
            program,
        }
    }

    /// As the input of an execution.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a program is plain data")
    }
}

/// What an activity is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub label: String,
    pub job: Job,
}

/// What an activity answers: depends on its label alone.
#[must_use]
pub fn answer(label: &str) -> String {
    let fold = |h: u32, b: u8| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    format!("{:x}", label.bytes().fold(0x811c_9dc5, fold))
}

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
            let letters = run.letters.join(",");
            Ok(format!("{}:{}{LETTERS}{letters}", run.life, run.log))
        }
        Ending::Fails => Err(format!("{}:{}", run.life, run.log)),
        Ending::FailsUntil(attempt) if attempt_of(&ctx.instance_id()) < attempt => {
            Err("not yet".to_owned())
        }
        Ending::FailsUntil(_) => Ok(format!("{}:{}{LETTERS}", run.life, run.log)),
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
        Step::Letters(count) => {
            for _ in 0..count {
                run.letters.push(ctx.dequeue_event(QUEUE).await);
            }
            format!("{count} letters")
        }
        Step::Keyed(count) => operations::keyed(ctx, run.life, count).await,
        Step::LetterOrTimer(ms) => {
            let timer = ctx.schedule_timer(Duration::from_millis(ms.into()));
            let first = ctx.select2(ctx.dequeue_event(QUEUE), timer).await;
            if let Either2::First(letter) = first {
                run.letters.push(letter);
            }
            "letter or timer".to_owned()
        }
        Step::OvertakenReader => {
            let older = ctx.dequeue_event(QUEUE);
            let second = ctx.dequeue_event(QUEUE).await;
            drop(older);
            // What the older reader would have got goes to the next.
            let first = ctx.dequeue_event(QUEUE).await;
            run.letters.extend([first, second]);
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
