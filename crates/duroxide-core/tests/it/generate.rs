//! Generates programs.

use proptest::prelude::*;

use crate::program::{Joiner, Op, Step};

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Activity),
        1 => Just(Op::Tagged),
        1 => Just(Op::OnSession),
        1 => Just(Op::Surfaced),
        2 => Just(Op::Retried),
        3 => Just(Op::Timer),
        3 => (0..3u8).prop_map(Op::Wait),
        5 => (0..3u8).prop_map(Op::Dequeue),
        2 => Just(Op::Child),
        1 => Just(Op::NamedChild),
        2 => Just(Op::RetriedChild),
        1 => Just(Op::Guid),
        1 => Just(Op::Now),
        1 => Just(Op::ForeignKv),
    ]
}

fn any_joiner() -> impl Strategy<Value = Joiner> {
    prop_oneof![
        Just(Joiner::Context),
        Just(Joiner::JoinAll),
        Just(Joiner::Unordered)
    ]
}

fn any_leaf() -> impl Strategy<Value = Step> {
    let ops = |range| prop::collection::vec(any_op(), range);
    prop_oneof![
        6 => any_op().prop_map(Step::Await),
        6 => any_op().prop_map(Step::Hold),
        4 => any::<u8>().prop_map(Step::Claim),
        4 => any::<u8>().prop_map(Step::Drop),
        4 => (any_op(), any_op()).prop_map(|(a, b)| Step::Race(a, b)),
        2 => ops(0..6).prop_map(Step::RaceMany),
        3 => (any::<u8>(), any_op()).prop_map(|(n, op)| Step::RaceHeld(n, op)),
        3 => ops(0..5).prop_map(Step::Join),
        1 => Just(Step::Retry),
        1 => Just(Step::Detach),
        3 => (0..4u8).prop_map(Step::KvAdd),
        1 => (0..4u8).prop_map(Step::KvClear),
        1 => Just(Step::KvClearAll),
        2 => (0..9u8).prop_map(Step::KvPrune),
        1 => Just(Step::Status),
        1 => Just(Step::ResetStatus),
        1 => Just(Step::Continue),
        1 => Just(Step::Return),
        1 => Just(Step::Fail),
        1 => Just(Step::Panic),
        1 => Just(Step::BreakLimit),
    ]
}

/// Programs that use everything.
pub(crate) fn any_program() -> impl Strategy<Value = Vec<Step>> {
    let step = any_leaf().prop_recursive(2, 24, 4, |inner| {
        let steps = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (any_joiner(), prop::collection::vec(steps(), 1..4))
                .prop_map(|(joiner, branches)| Step::JoinBranches(joiner, branches)),
            (steps(), steps()).prop_map(|(a, b)| Step::RaceBranches(a, b)),
            (steps(), steps()).prop_map(|(a, b)| Step::If(a, b)),
        ]
    });
    prop::collection::vec(step, 1..9)
}

/// Programs whose result does not depend on timing: no races, no drops, nothing shared between branches.
pub(crate) fn calm_program() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![
        4 => Just(Op::Activity),
        2 => Just(Op::Timer),
        1 => Just(Op::Wait(0)),
        2 => Just(Op::Dequeue(0)),
        1 => Just(Op::Child),
        1 => Just(Op::NamedChild),
    ];
    let ops = prop::collection::vec(op.clone(), 0..5);
    let leaf = prop_oneof![
        5 => op.clone().prop_map(Step::Await),
        3 => op.prop_map(Step::Hold),
        3 => Just(Step::Claim(0)),
        2 => ops.prop_map(Step::Join),
        1 => Just(Step::Detach),
    ];
    // What is still held at the end of a branch would be dropped there, and that is a race.
    let claimed = |mut steps: Vec<Step>| {
        steps.extend((0..8).map(|_| Step::Claim(0)));
        steps
    };
    let branch = prop::collection::vec(leaf.clone(), 0..5).prop_map(claimed);
    let step = prop_oneof![
        4 => leaf,
        2 => (any_joiner(), prop::collection::vec(branch, 1..4))
            .prop_map(|(joiner, branches)| Step::JoinBranches(joiner, branches)),
        1 => (0..3u8).prop_map(Step::KvAdd),
        1 => Just(Step::Status),
    ];
    prop::collection::vec(step, 1..7).prop_map(claimed)
}

/// Programs that may race and drop, but see answers only in the order they arrive in: nothing that waits for the end of
/// a turn (messages that were there before their reader, questions to the host, limits, clocks).
pub(crate) fn ordered_program() -> impl Strategy<Value = Vec<Step>> {
    any_program().prop_map(|steps| steps.into_iter().filter_map(ordered).collect())
}

fn ordered(step: Step) -> Option<Step> {
    let op = |op: Op| match op {
        Op::Wait(_) => Op::Wait(0),
        // An attempt that is polled before it is recorded is recorded where the poll is.
        Op::Retried | Op::Dequeue(_) | Op::Guid | Op::Now | Op::ForeignKv => Op::Activity,
        // What a failed child is followed by comes later than its failure.
        Op::RetriedChild => Op::Child,
        other => other,
    };
    let ops = |list: Vec<Op>| list.into_iter().map(op).collect();
    let steps = |list: Vec<Step>| list.into_iter().filter_map(ordered).collect();
    Some(match step {
        Step::KvPrune(_) | Step::Continue | Step::BreakLimit => return None,
        Step::Await(o) => Step::Await(op(o)),
        Step::Hold(o) => Step::Hold(op(o)),
        Step::Race(a, b) => Step::Race(op(a), op(b)),
        Step::RaceMany(list) => Step::RaceMany(ops(list)),
        Step::RaceHeld(n, o) => Step::RaceHeld(n, op(o)),
        Step::Join(list) => Step::Join(ops(list)),
        Step::JoinBranches(joiner, branches) => {
            Step::JoinBranches(joiner, branches.into_iter().map(steps).collect())
        }
        Step::RaceBranches(a, b) => Step::RaceBranches(steps(a), steps(b)),
        Step::If(a, b) => Step::If(steps(a), steps(b)),
        other => other,
    })
}
