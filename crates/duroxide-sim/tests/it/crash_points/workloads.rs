//! Twelve workloads that together use the whole language. In: nothing. Out: programs with their clients.

use std::time::Duration;

use duroxide_sim::plan::{LifeEnd, LifePlan, RootPlan, StartPlan};
use duroxide_sim::program::{Ending, Job, Op, Program, Step};

/// All workloads, with names to find them by.
pub(super) fn all() -> Vec<(&'static str, RootPlan)> {
    let quick = || Op::Work(Job::Quick);
    let program = |steps| Program {
        steps,
        ..Program::default()
    };
    let child = |steps| Op::Child(program(steps));
    let alone = |steps| root(program(steps), LifeEnd::Alone);
    let cancel = LifeEnd::Cancel {
        after: Duration::from_millis(30),
        times: 2,
        pause: Duration::from_millis(5),
    };
    vec![
        ("a chain", alone(vec![Step::Do(quick()), Step::Do(quick())])),
        (
            "a fan-out",
            alone(vec![Step::All(vec![quick(), quick(), Op::Guid, quick()])]),
        ),
        (
            "failures and retries",
            alone(vec![
                Step::Do(Op::Work(Job::Flaky(1))),
                Step::All(vec![Op::Work(Job::Fails), Op::Work(Job::Panics)]),
            ]),
        ),
        (
            "timers and races",
            alone(vec![
                Step::Do(Op::Timer(10)),
                Step::Race(Op::Timer(5), Op::Work(Job::Slow(3))),
                Step::Wins(quick()),
                Step::Dropped(quick()),
            ]),
        ),
        (
            "signals",
            alone(vec![
                Step::Do(Op::Signal),
                Step::All(vec![Op::Signal, quick()]),
            ]),
        ),
        (
            "queue messages across executions",
            alone(vec![Step::Dequeue(2), Step::Continue, Step::Dequeue(1)]),
        ),
        (
            "children",
            alone(vec![
                Step::Do(child(vec![Step::Do(quick()), Step::Continue])),
                Step::Do(Op::NamedChild(program(vec![Step::Do(Op::Timer(3))]))),
                Step::Do(Op::Collide),
            ]),
        ),
        (
            "detached starts",
            alone(vec![
                Step::Detach(program(vec![Step::Do(quick())])),
                Step::Continue,
            ]),
        ),
        (
            "key-values and a status",
            alone(vec![
                Step::KvAdd(0),
                Step::Status,
                Step::Continue,
                Step::KvAdd(0),
                Step::KvAdd(1),
                Step::KvClear(0),
                Step::Status,
            ]),
        ),
        (
            "sessions, tags and versions",
            root(
                Program {
                    steps: vec![
                        Step::Do(Op::OnSession(0, Job::Quick)),
                        Step::Do(Op::Tagged(Job::Quick)),
                        Step::Do(Op::OnSession(0, Job::Slow(2))),
                    ],
                    version: 1,
                    ..Program::default()
                },
                LifeEnd::Alone,
            ),
        ),
        (
            "code that is cancelled and puts things right",
            root(
                Program {
                    steps: vec![Step::Do(child(vec![Step::Do(quick())]))],
                    ending: Ending::Waits,
                    cooperative: true,
                    ..Program::default()
                },
                cancel,
            ),
        ),
        (
            "an id that is deleted and started again",
            RootPlan {
                id: "i".to_owned(),
                lives: vec![
                    life(
                        program(vec![Step::KvAdd(0), Step::Do(quick())]),
                        LifeEnd::Alone,
                    ),
                    life(
                        program(vec![Step::KvAdd(0), Step::Do(quick())]),
                        LifeEnd::Alone,
                    ),
                ],
            },
        ),
    ]
}

fn root(program: Program, end: LifeEnd) -> RootPlan {
    RootPlan {
        id: "i".to_owned(),
        lives: vec![life(program, end)],
    }
}

fn life(program: Program, end: LifeEnd) -> LifePlan {
    LifePlan {
        program,
        start_after: Duration::ZERO,
        message_pause: Duration::from_millis(1),
        signal_pause: Duration::from_millis(10),
        end,
        prunes: false,
        reads: false,
        pauses: None,
        retries: false,
        start: StartPlan::Plain,
        restarts: false,
    }
}
