//! A turn that continues and a turn that replays record the same events, whatever the program and whatever the cuts.
//!
//! Every execution here has its own hash seeds (each `HashMap` of the standard library draws fresh ones), so an order
//! that depends on hashing would show as well.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::replay::{EndOf, Execution, Outcome, TurnLimits, fail_without_replay};
use duroxide_core::{Event, EventKind, OrchestrationHandler, WorkItem};
use proptest::prelude::*;

use crate::arrivals::{Dice, answer, any_message, open};
use crate::generate::{any_program, calm_program};
use crate::history::{EPOCH_MS, INSTANCE, completed, in_execution};
use crate::program::{Op, Step, interpreter};
use crate::world::{World, assert_well_formed, run_turn};

const TURNS_MAX: usize = 60;

/// Everything one run left behind.
struct Run {
    world: World,
    batches: Vec<Vec<WorkItem>>,
    /// Key-values that each execution began with, and how many events there were after each of its turns.
    executions: Vec<(HashMap<String, KvEntry>, Vec<usize>)>,
}

impl Run {
    fn histories(&self) -> Vec<Vec<Event>> {
        let mut all = self.world.past.clone();
        all.push(self.world.history.clone());
        all
    }
}

/// Runs a program with batches chosen as it goes. The batches of a run can be fed again.
fn run_freely(handler: Arc<dyn OrchestrationHandler>, seed: u64, ask_host: bool) -> Run {
    let mut dice = Dice::new(seed);
    let mut batches = Vec::new();
    drive(handler, ask_host, |turn, world| {
        let batch = choose_batch(&mut dice, turn, world)?;
        batches.push(batch.clone());
        Some((batch, false))
    })
    .with_batches(batches)
}

impl Run {
    fn with_batches(mut self, batches: Vec<Vec<WorkItem>>) -> Self {
        self.batches = batches;
        self
    }
}

/// Runs a program, asking before each turn what it gets and whether the execution is forgotten first.
fn drive(
    handler: Arc<dyn OrchestrationHandler>,
    ask_host: bool,
    mut next: impl FnMut(usize, &World) -> Option<(Vec<WorkItem>, bool)>,
) -> Run {
    let mut world = World::with_handler(handler);
    world.ask_host = ask_host;
    let mut executions = vec![(HashMap::new(), Vec::new())];
    for turn in 0..TURNS_MAX {
        if world.is_over() {
            break;
        }
        let Some((batch, forget)) = next(turn, &world) else {
            break;
        };
        if forget {
            world.forget();
        }
        let execution = world.execution_id();
        world.turn(batch);
        let commits = &mut executions.last_mut().expect("one at least").1;
        if world.execution_id() == execution {
            commits.clone_from(&world.commits);
        } else {
            commits.push(world.past.last().expect("just ended").len());
            executions.push((world.kv.clone(), Vec::new()));
        }
    }
    Run {
        world,
        batches: Vec::new(),
        executions,
    }
}

/// A few messages of any sort; towards the end, answers to everything that is open.
fn choose_batch(dice: &mut Dice, turn: usize, world: &World) -> Option<Vec<WorkItem>> {
    let execution = world.execution_id();
    if world.history.is_empty() {
        return Some(any_message(dice, &[], execution).into_iter().collect());
    }
    if turn < TURNS_MAX - 20 {
        let size = 1 + dice.below(4);
        let messages = (0..size).filter_map(|_| any_message(dice, &world.history, execution));
        return Some(messages.collect());
    }
    let rest = open(&world.history, false);
    (!rest.is_empty()).then(|| rest.iter().map(|open| answer(open, execution)).collect())
}

/// The same batches again, with the execution forgotten before some turns.
fn run_again(
    handler: Arc<dyn OrchestrationHandler>,
    first: &Run,
    ask_host: bool,
    forget: impl Fn(usize) -> bool,
) -> Run {
    drive(handler, ask_host, |turn, _| {
        let batch = first.batches.get(turn)?.clone();
        Some((batch, forget(turn)))
    })
}

/// Whether a question to the host stands open, which no turn leaves behind when the host is asked.
fn asks_host(history: &[Event]) -> bool {
    open(history, false).iter().any(|open| {
        matches!(&open.kind, EventKind::ActivityScheduled { name, .. } if name.starts_with("__duroxide"))
    })
}

/// Every prefix replays; a committed one decides nothing new; one cut inside a turn decides the rest of that turn.
fn check_prefixes(
    handler: &Arc<dyn OrchestrationHandler>,
    history: &[Event],
    kv: &HashMap<String, KvEntry>,
    commits: &[usize],
    ask_host: bool,
) {
    for end in 1..=history.len() {
        let prefix = &history[..end];
        let mut execution = Execution::load(prefix, Arc::clone(handler), kv.clone())
            .unwrap_or_else(|d| panic!("prefix of {end} events diverged: {d}"));
        let committed = commits.contains(&end);
        if committed && !history[end - 1].is_terminal() {
            check_forced_end(prefix, handler, kv);
        }
        let until = *commits
            .iter()
            .find(|commit| **commit >= end)
            .expect("a turn");
        let rest = &history[end..until];
        let host_answers = ask_host && rest.iter().any(|e| e.kind.is_arrival());
        if !committed && (rest.iter().any(|e| e.kind.is_arrival()) && !host_answers) {
            continue;
        }
        if ask_host && asks_host(prefix) || host_answers && !only_host_answers(prefix, rest) {
            continue;
        }
        if !committed && broke_limit(&history[until - 1]) {
            // What was decided between the arrivals, and what the host answered, was taken back: it cannot be the same
            // again.
            continue;
        }
        let now = history[until - 1].timestamp_ms;
        let turn = run_turn(
            &mut execution,
            now,
            vec![],
            &TurnLimits::default(),
            ask_host,
        );
        assert_eq!(
            turn.events,
            rest,
            "prefix of {end} events, of {}",
            history.len()
        );
        if committed && !history[end - 1].is_terminal() {
            assert_eq!(turn.outcome, Outcome::Waiting);
            assert!(turn.actions.is_empty());
            assert!(turn.cancelled_activities.is_empty() && turn.cancelled_children.is_empty());
        }
    }
}

/// An execution that is ended without its code cancels what it would cancel with its code.
fn check_forced_end(
    prefix: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) {
    let mut execution = Execution::load(prefix, Arc::clone(handler), kv.clone()).expect("loaded");
    let execution_id = prefix[0].execution_id;
    let misfit = in_execution(execution_id, completed(1_000_000, ""));
    let limits = TurnLimits::default();
    let with_code = run_turn(
        &mut execution,
        prefix[0].timestamp_ms,
        vec![misfit],
        &limits,
        true,
    );
    let Outcome::Failed { details } = with_code.outcome else {
        panic!("{:?}", with_code.outcome)
    };
    let of = EndOf {
        instance_id: INSTANCE,
        execution_id,
        history: prefix,
        now_ms: prefix[prefix.len() - 1].timestamp_ms,
    };
    let without = fail_without_replay(of, Vec::new(), details);
    assert_eq!(without.cancelled_activities, with_code.cancelled_activities);
    assert_eq!(without.cancelled_children, with_code.cancelled_children);
    let whole: Vec<Event> = prefix.iter().chain(&without.events).cloned().collect();
    assert_well_formed(&whole);
}

fn broke_limit(event: &Event) -> bool {
    matches!(&event.kind, EventKind::OrchestrationFailed { details }
        if details.display_message().contains("exceeds limit"))
}

/// Whether all arrivals of the rest of a turn answer questions to the host that are asked in that rest.
fn only_host_answers(prefix: &[Event], rest: &[Event]) -> bool {
    rest.iter().filter(|e| e.kind.is_arrival()).all(|e| {
        e.source_event_id
            .is_some_and(|source| source > prefix.len() as u64)
    })
}

fn check_program(program: Vec<Step>, seed: u64, ask_host: bool) {
    let handler = interpreter(program);
    let first = run_freely(Arc::clone(&handler), seed, ask_host);
    let wanted = first.histories();
    let turns = first.batches.len();
    let check = |what: &str, forget: &dyn Fn(usize) -> bool| {
        let again = run_again(Arc::clone(&handler), &first, ask_host, forget);
        assert_eq!(again.histories(), wanted, "{what}");
    };
    check("continued throughout", &|_| false);
    check("replayed before every turn", &|_| true);
    for only in 1..turns.min(12) {
        check("replayed before one turn", &|turn| turn == only);
    }
    if turns <= 6 {
        for pattern in 0..1u32 << turns {
            check("replayed in every way", &|turn| pattern >> turn & 1 == 1);
        }
    }
    for pattern in 0..4u64 {
        let bits = seed.rotate_left(pattern as u32 * 16);
        check("replayed before some turns", &|turn| {
            bits >> (turn % 64) & 1 == 1
        });
    }
    for (history, (kv, commits)) in wanted.iter().zip(&first.executions) {
        check_prefixes(&handler, history, kv, commits, ask_host);
    }
    let mut folded = HashMap::new();
    for (history, (kv, _)) in wanted.iter().zip(&first.executions) {
        assert_eq!(
            *kv, folded,
            "an execution begins with the key-values of those before it"
        );
        fold_key_values(&mut folded, history);
    }
}

/// How an operation is recognised whatever its event id is.
fn label(kind: &EventKind) -> String {
    match kind {
        EventKind::ActivityScheduled { input, .. }
        | EventKind::SubOrchestrationScheduled { input, .. } => input.clone(),
        EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } => {
            name.clone()
        }
        other => panic!("no label: {other:?}"),
    }
}

/// Feeds answers in a fixed order of labels, cut where the dice say, and returns how the program ended. Timers have no
/// label of their own; they fire in order of creation whenever nothing else can be answered.
fn run_calmly(
    handler: &Arc<dyn OrchestrationHandler>,
    order: u64,
    cuts: u64,
    most: usize,
) -> Outcome {
    let mut dice = Dice::new(cuts);
    let mut world = World::with_handler(Arc::clone(handler));
    let mut turn = world.turn(vec![]);
    for _ in 0..500 {
        if turn.outcome != Outcome::Waiting {
            return turn.outcome;
        }
        let mut ready = open(&world.history, false);
        ready.sort_by_key(|open| match &open.kind {
            EventKind::TimerCreated { .. } => (u64::MAX, open.id),
            kind => (crate::program::hash(&label(kind)) ^ order, 0),
        });
        let size = 1 + dice.below(most);
        let batch = ready
            .iter()
            .take(size)
            .map(|open| answer(open, 1))
            .collect();
        if dice.below(2) == 0 {
            world.forget();
        }
        turn = world.turn(batch);
    }
    panic!("the program never ends, {} events", world.history.len());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn continued_and_replayed_turns_record_the_same_events(
        program in any_program(),
        seed in any::<u64>(),
        ask_host in any::<bool>(),
    ) {
        check_program(program, seed, ask_host);
    }

    #[test]
    fn the_result_of_a_program_without_races_does_not_depend_on_the_cuts(
        program in calm_program(),
        order in any::<u64>(),
        cuts in any::<u64>(),
    ) {
        let handler = interpreter(program);
        let finest = run_calmly(&handler, order, cuts, 1);
        for most in [2, 3, 8, 1_000] {
            prop_assert_eq!(&run_calmly(&handler, order, cuts, most), &finest);
        }
        let other_order = run_calmly(&handler, !order, cuts, 3);
        prop_assert_eq!(other_order, finest);
    }
}

#[test]
fn the_times_of_a_run_are_those_of_its_turns() {
    let handler = interpreter(vec![Step::Await(Op::Activity), Step::KvAdd(1)]);
    let run = run_freely(handler, 3, true);
    let history = run.histories().remove(0);
    assert_eq!(history[0].timestamp_ms, EPOCH_MS + 1_000);
}
