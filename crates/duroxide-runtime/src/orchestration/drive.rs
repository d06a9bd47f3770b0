//! Running the author's code for one turn. In: where it begins, and the messages. Out: the turn as it ran, or why it
//! did not. Answers what the code asks the host; commits nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{KvEntry, ProviderError};
use duroxide_core::replay::{
    Divergence, Execution, ExecutionStart, HostCall, HostRequest, InPlaceFuture, Progress, Turn,
};
use duroxide_core::{
    ErrorDetails, Event, EventKind, OrchestrationHandler, Timeout, WorkItem, check_queue_name,
};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use super::{foreign, host};
use crate::engine::Engine;
use crate::leases::Held;
use crate::options::OnDivergence;

/// Questions to the host that one turn may ask one after the other; a loop that asks for ever is broken into turns.
const HOST_ROUNDS_MAX: u32 = 1_000;

/// The part of a turn's time that one effect in place may take: two that hang, and the turn still commits.
const IN_PLACE_SHARE: u32 = 3;

/// Where a turn begins.
pub(super) enum TurnStart {
    /// The orchestration was kept in memory.
    Kept {
        execution: Box<Execution>,
        /// The payload bytes that it has seen.
        bytes: usize,
    },
    /// It must be replayed.
    Recorded {
        history: Arc<[Event]>,
        handler: Arc<dyn OrchestrationHandler>,
        kv: HashMap<String, KvEntry>,
    },
    /// It begins now.
    New {
        start: ExecutionStart,
        handler: Arc<dyn OrchestrationHandler>,
        kv: HashMap<String, KvEntry>,
    },
}

/// A turn that ran.
pub(super) struct Driven {
    pub(super) execution: Box<Execution>,
    pub(super) turn: Box<Turn>,
    /// Messages to other instances, and answers that are sent as completions because the turn asked too often.
    pub(super) to_send: Vec<WorkItem>,
}

/// Why a turn did not run.
pub(super) enum NotDriven {
    /// The code does not fit the history; the messages as they came.
    Diverged(Divergence, Vec<WorkItem>),
    /// The store could not be asked.
    Store(ProviderError),
    /// What the turn asked for was not answered in the time that a turn may take.
    TooLong,
}

/// Runs one turn to its end. Questions to the host share the time that a turn may take: after it the lease is not
/// renewed any more, so an answer would come too late.
pub(super) async fn drive(
    engine: &Arc<Engine>,
    lease: &Held,
    start: TurnStart,
    messages: Vec<WorkItem>,
) -> Result<Driven, NotDriven> {
    let now_ms = engine.clock.now_ms();
    let began = Instant::now();
    let mut execution = match at_its_start(engine, start, now_ms) {
        Ok(execution) => execution,
        Err(divergence) => return Err(NotDriven::Diverged(divergence, messages)),
    };
    if engine.options.on_divergence == OnDivergence::Block {
        // Blocking would wait for other code, and no code can make a message fit that has no schedule.
        execution.ignore_strays();
    }
    execution.start_turn(now_ms, messages);
    let mut progress = execution.advance(&engine.limits, true);
    let mut round = 0;
    let mut outbox = Vec::new();
    let mut is_lease_stored = false;
    loop {
        let calls = match &progress {
            Progress::Done(turn) => &turn.unanswered,
            Progress::NeedsHost(calls) => calls,
        };
        if calls.iter().any(host::needs_stored_lease) {
            if !is_lease_stored {
                Box::pin(store_lease(engine, lease.token(), began)).await?;
                is_lease_stored = true;
            }
            // Its keeper may have heard so since the last effect: another node has the turn.
            if lease.lost().is_cancelled() {
                return Err(NotDriven::Store(lost()));
            }
        }
        let calls = match progress {
            Progress::Done(turn) if turn.unanswered.is_empty() => {
                return Ok(Driven {
                    to_send: recorded_messages(outbox, &turn),
                    execution,
                    turn,
                });
            }
            Progress::Done(turn) => {
                return Box::pin(answer_late(engine, execution, turn, outbox, began)).await;
            }
            Progress::NeedsHost(calls) => calls,
        };
        let asking = Asking::of(&execution);
        let questions = questions(&mut execution, calls);
        let answers = Box::pin(answer_all(engine, &asking, questions, began)).await?;
        for (call, answer) in answers {
            outbox.extend(message(&call, &answer));
            execution.record_host_answer(&call, answer);
        }
        round += 1;
        // Another effect that hangs would use up the turn: what is asked late in it is answered as a completion.
        let is_early = began.elapsed() < engine.options.turn_duration_max / IN_PLACE_SHARE;
        progress = execution.advance(&engine.limits, round < HOST_ROUNDS_MAX && is_early);
    }
}

/// The execution as it is before its turn: kept in memory, replayed, or new.
fn at_its_start(
    engine: &Arc<Engine>,
    start: TurnStart,
    now_ms: u64,
) -> Result<Box<Execution>, Divergence> {
    let execution = match start {
        TurnStart::Kept { execution, .. } => return Ok(execution),
        TurnStart::Recorded {
            history,
            handler,
            kv,
        } => Box::new(Execution::load(&history, handler, kv)?),
        TurnStart::New { start, handler, kv } => {
            Box::new(Execution::begin(start, handler, kv, now_ms))
        }
    };
    foreign::watch(engine, &execution);
    Ok(execution)
}

/// A turn may have been handed out before its claim was stored. One whose claim cannot be stored leaves no trace.
async fn store_lease(engine: &Engine, lock_token: &str, began: Instant) -> Result<(), NotDriven> {
    let stored = engine.store.store_lease(lock_token);
    match tokio::time::timeout(time_left(engine, began), stored).await {
        Ok(stored) => stored.map_err(NotDriven::Store),
        Err(_) => Err(NotDriven::Store(unanswered())),
    }
}

/// What a turn decided under a lost lease is not stored, and what it does beside that is done twice.
fn lost() -> ProviderError {
    ProviderError::lease_lost(
        "drive",
        "the lease of the turn was lost before its next effect",
    )
}

/// A store that hangs is away like one that says so, and no fault of the instance.
fn unanswered() -> ProviderError {
    let why = "the store did not answer within the time of a turn";
    ProviderError::retryable("ask", why)
}

/// A message that the turn asked to send, by the event that recorded the request.
type Outgoing = (u64, WorkItem);

/// The message behind a question, if it may go.
fn message(call: &HostCall, answer: &Result<String, ErrorDetails>) -> Option<Outgoing> {
    let HostRequest::Send {
        instance,
        queue,
        data,
    } = &call.request
    else {
        return None;
    };
    let item = WorkItem::QueueMessage {
        instance: instance.clone(),
        name: queue.clone(),
        data: data.clone(),
    };
    let may_go = answer.as_deref().is_ok_and(|answer| answer == "null");
    may_go.then_some((call.activity_id, item))
}

/// The messages whose requests the turn records. A turn that broke a limit takes its decisions back.
fn recorded_messages(outbox: Vec<Outgoing>, turn: &Turn) -> Vec<WorkItem> {
    let is_recorded = |id: u64| {
        turn.events.iter().any(|event| {
            event.event_id == id && matches!(event.kind, EventKind::ActivityScheduled { .. })
        })
    };
    let recorded = outbox.into_iter().filter(|(id, _)| is_recorded(*id));
    recorded.map(|(_, item)| item).collect()
}

type Answered = (HostCall, Result<String, ErrorDetails>);

/// Who asks. Suspended code is not shared between threads, so it is not borrowed while waiting.
struct Asking {
    instance: String,
    execution_id: u64,
}

impl Asking {
    fn of(execution: &Execution) -> Self {
        Self {
            instance: execution.instance_id().to_owned(),
            execution_id: execution.execution_id(),
        }
    }
}

/// A question, with what the suspended code itself knows of the answer.
type Question = (HostCall, AnswerAtHand);

/// What the suspended code knows of an answer.
enum AnswerAtHand {
    Nothing,
    /// The work that gives it, and how long that may take.
    Work(InPlaceFuture, Option<Duration>),
    /// The answer itself.
    Answer(String),
}

/// Takes the work out of the suspended code, which is not borrowed while waiting.
fn questions(execution: &mut Execution, calls: Vec<HostCall>) -> Vec<Question> {
    let with_work = |call: HostCall| {
        let limit = execution.in_place_limit(call.activity_id);
        let at_hand = match (execution.take_in_place(call.activity_id), &call.request) {
            (Some(work), _) => AnswerAtHand::Work(work, limit),
            // The start goes with the same commit as the message.
            (
                None,
                HostRequest::Send {
                    instance, queue, ..
                },
            ) if execution.starts(instance) && check_queue_name(queue).is_ok() => {
                AnswerAtHand::Answer("null".to_owned())
            }
            (None, _) => AnswerAtHand::Nothing,
        };
        (call, at_hand)
    };
    calls.into_iter().map(with_work).collect()
}

/// Answers all questions, side by side, in the order they were asked.
async fn answer_all(
    engine: &Engine,
    asking: &Asking,
    questions: Vec<Question>,
    began: Instant,
) -> Result<Vec<Answered>, NotDriven> {
    let answers = questions
        .into_iter()
        .map(|(call, at_hand)| answer_one(engine, asking, call, at_hand, began));
    // Each has a limit of its own that ends before this one, unless the machine stands still.
    let limit = time_left(engine, began) + Duration::from_secs(1);
    match tokio::time::timeout(limit, try_join_all(answers)).await {
        Ok(answers) => answers,
        Err(_) => Err(NotDriven::TooLong),
    }
}

/// What is left of the time that a turn may take.
fn time_left(engine: &Engine, began: Instant) -> Duration {
    let most = engine.options.turn_duration_max;
    most.saturating_sub(began.elapsed())
}

/// How long an effect in place may take: a share of the turn, and never more than half of what is left of it.
fn time_in_place(engine: &Engine, limit: Option<Duration>, began: Instant) -> Duration {
    let share = engine.options.turn_duration_max / IN_PLACE_SHARE;
    let most = share.min(time_left(engine, began) / 2);
    limit.map_or(most, |limit| limit.min(most))
}

async fn answer_one(
    engine: &Engine,
    asking: &Asking,
    call: HostCall,
    at_hand: AnswerAtHand,
    began: Instant,
) -> Result<Answered, NotDriven> {
    let answer = match at_hand {
        AnswerAtHand::Answer(answer) => Ok(answer),
        AnswerAtHand::Work(work, limit) => {
            let limit = time_in_place(engine, limit, began);
            in_place(engine, &call, work, limit).await
        }
        AnswerAtHand::Nothing => {
            let answer = host::answer(engine, &asking.instance, asking.execution_id, &call);
            match tokio::time::timeout(time_left(engine, began), answer).await {
                Ok(answer) => answer
                    .map_err(NotDriven::Store)?
                    .map_err(ErrorDetails::activity_failed),
                Err(_) => return Err(NotDriven::Store(unanswered())),
            }
        }
    };
    Ok((call, answer))
}

/// Drives work that runs in place. What takes too long is given up alone: the rest of the turn keeps its time.
async fn in_place(
    engine: &Engine,
    call: &HostCall,
    work: InPlaceFuture,
    limit: Duration,
) -> Result<String, ErrorDetails> {
    let name = match &call.request {
        HostRequest::RunInPlace { name } => name.as_str(),
        _ => "in place",
    };
    let Ok(answer) = tokio::time::timeout(limit, host::run_in_place(work)).await else {
        tracing::warn!(target: "duroxide::runtime", effect = name, ?limit, "an effect in place took too long and was given up");
        return Err(Timeout::StartToClose.to_details(name, limit));
    };
    let (Ok(text) | Err(text)) = &answer;
    let what = format!("Result of run '{name}'");
    match engine.limits.too_large(&what, text) {
        Some(violation) => Err(ErrorDetails::activity_failed(violation)),
        None => answer.map_err(ErrorDetails::activity_failed),
    }
}

/// Answers the questions of a turn that asked too often, as completions of a later one.
async fn answer_late(
    engine: &Engine,
    mut execution: Box<Execution>,
    mut turn: Box<Turn>,
    mut outbox: Vec<Outgoing>,
    began: Instant,
) -> Result<Driven, NotDriven> {
    let mut late_answers = Vec::new();
    let asking = Asking::of(&execution);
    let unanswered = questions(&mut execution, std::mem::take(&mut turn.unanswered));
    for (call, answer) in answer_all(engine, &asking, unanswered, began).await? {
        outbox.extend(message(&call, &answer));
        let (instance, execution_id) = (asking.instance.clone(), asking.execution_id);
        late_answers.push(match answer {
            Ok(result) => WorkItem::ActivityCompleted {
                instance,
                execution_id,
                id: call.activity_id,
                result,
            },
            Err(details) => WorkItem::ActivityFailed {
                instance,
                execution_id,
                id: call.activity_id,
                details,
            },
        });
    }
    let mut to_send = recorded_messages(outbox, &turn);
    to_send.append(&mut late_answers);
    Ok(Driven {
        execution,
        turn,
        to_send,
    })
}
