//! Running the author's code for one turn.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{KvEntry, ProviderError};
use duroxide_core::replay::{
    Divergence, Execution, ExecutionStart, HostCall, InPlaceFuture, Progress, Turn,
};
use duroxide_core::{Event, OrchestrationHandler, WorkItem};

use super::{foreign, host};
use crate::engine::Engine;
use crate::options::OnDivergence;

/// Questions to the host that one turn may ask one after the other; a loop that asks for ever is broken into turns.
const HOST_ROUNDS_MAX: u32 = 1_000;

/// Where a turn begins.
pub(super) enum TurnStart {
    /// The orchestration was kept in memory.
    Kept(Box<Execution>),
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
    pub(super) execution: Execution,
    pub(super) turn: Turn,
    /// Answers that are sent as completions, because the turn asked too often.
    pub(super) late_answers: Vec<WorkItem>,
}

/// Why a turn did not run.
pub(super) enum NotDriven {
    /// The code does not fit the history.
    Diverged(Divergence),
    /// The store could not be asked.
    Store(ProviderError),
}

/// Runs one turn to its end.
pub(super) async fn drive(
    engine: &Arc<Engine>,
    begin: TurnStart,
    messages: Vec<WorkItem>,
) -> Result<Driven, NotDriven> {
    let now_ms = engine.clock.now_ms();
    let is_kept = matches!(begin, TurnStart::Kept(_));
    let mut execution = match begin {
        TurnStart::Kept(execution) => *execution,
        TurnStart::Recorded {
            history,
            handler,
            kv,
        } => Execution::load(&history, handler, kv).map_err(NotDriven::Diverged)?,
        TurnStart::New { start, handler, kv } => Execution::begin(start, handler, kv, now_ms),
    };
    if !is_kept {
        foreign::watch(engine, &execution);
    }
    if engine.options.on_divergence == OnDivergence::Block {
        // Blocking would wait for other code, and no code can make a message fit that has no schedule.
        execution.set_strays_aside();
    }
    execution.start_turn(now_ms, messages);
    let mut progress = execution.advance(&engine.limits, true);
    let mut round = 0;
    loop {
        let calls = match progress {
            Progress::Done(turn) => return finish(engine, execution, *turn).await,
            Progress::NeedsHost(calls) => calls,
        };
        let asking = Asking::of(&execution);
        let questions = questions(&mut execution, calls);
        let answers = answer_all(engine, &asking, questions).await?;
        for (call, answer) in answers {
            execution.answer_host(&call, answer);
        }
        round += 1;
        progress = execution.advance(&engine.limits, round < HOST_ROUNDS_MAX);
    }
}

type Answered = (HostCall, Result<String, String>);

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

/// A question, with the work that answers it if that is the orchestration's own.
type Question = (HostCall, Option<InPlaceFuture>);

/// Takes the work out of the suspended code, which is not borrowed while waiting.
fn questions(execution: &mut Execution, calls: Vec<HostCall>) -> Vec<Question> {
    let with_work = |call: HostCall| {
        let work = execution.take_in_place(call.activity_id);
        (call, work)
    };
    calls.into_iter().map(with_work).collect()
}

async fn answer_all(
    engine: &Engine,
    asking: &Asking,
    questions: Vec<Question>,
) -> Result<Vec<Answered>, NotDriven> {
    let mut answers = Vec::with_capacity(questions.len());
    for (call, work) in questions {
        let answer = match work {
            Some(work) => host::run_in_place(work).await,
            None => host::answer(engine, &asking.instance, asking.execution_id, &call)
                .await
                .map_err(NotDriven::Store)?,
        };
        answers.push((call, answer));
    }
    Ok(answers)
}

async fn finish(
    engine: &Engine,
    mut execution: Execution,
    mut turn: Turn,
) -> Result<Driven, NotDriven> {
    let mut late_answers = Vec::new();
    let asking = Asking::of(&execution);
    let unanswered = questions(&mut execution, std::mem::take(&mut turn.unanswered));
    for (call, answer) in answer_all(engine, &asking, unanswered).await? {
        let (instance, execution_id) = (asking.instance.clone(), asking.execution_id);
        late_answers.push(match answer {
            Ok(result) => WorkItem::ActivityCompleted {
                instance,
                execution_id,
                id: call.activity_id,
                result,
            },
            Err(message) => WorkItem::ActivityFailed {
                instance,
                execution_id,
                id: call.activity_id,
                details: duroxide_core::ErrorDetails::activity_failed(message),
            },
        });
    }
    Ok(Driven {
        execution,
        turn,
        late_answers,
    })
}
