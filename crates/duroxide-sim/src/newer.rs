//! Adds to a drawn plan what the language learnt later: labels, messages to oneself, awaited instances, requests,
//! pauses, time limits; and retries. In: a plan and its seed. Out: the plan with some of that in it. Drawn from a
//! chance of its own, and only for every third seed (retries: for every twenty-third), so that the other seeds stand
//! for the runs they always stood for.

use crate::plan::{LifeEnd, LifePlan, Plan};
use crate::program::{Ending, Job, Op, Program, Step};
use crate::rng::Rng;

impl Plan {
    /// The same plan with newer parts of the language, if its seed has them.
    #[must_use]
    pub(crate) fn with_newer(mut self) -> Self {
        if self.seed % 23 == 16 {
            return self.with_retries();
        }
        if self.seed % 3 != 1 {
            return self;
        }
        let mut rng = Rng::new(self.seed ^ 0x0004_e3e3_11a9_4a6e);
        // Rare shapes become common when few are left.
        let kinds: Vec<usize> = (0..5).filter(|_| rng.chance(600)).collect();
        let (pauses, limits) = (rng.chance(400), rng.chance(400));
        for life in self.roots.iter_mut().flat_map(|root| &mut root.lives) {
            add_steps(&mut rng, &kinds, &mut life.program);
            if pauses && rng.chance(500) {
                life.pauses = Some(rng.millis(100, 6_000));
            }
            if limits && life.end == LifeEnd::Alone && rng.chance(500) {
                limit(&mut rng, life);
            }
        }
        self
    }

    /// Every instance is cancelled, once or more, and retried each time.
    fn with_retries(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0004_e7e7_11a9_4a6e);
        for life in self.roots.iter_mut().flat_map(|root| &mut root.lives) {
            life.program.steps.retain(|step| !needs_client(step));
            life.program.ending = Ending::Returns;
            let after = rng.millis(0, 20_000);
            life.end = if rng.chance(300) {
                LifeEnd::Terminate { after }
            } else {
                LifeEnd::Cancel {
                    after,
                    times: 1 + rng.below(3) as u8,
                    pause: rng.millis(0, 9_000),
                }
            };
            life.retries = true;
        }
        self
    }
}

/// Whether a step takes something that is sent to the instance. What comes while it has ended is gone, so a retry might
/// wait for ever.
fn needs_client(step: &Step) -> bool {
    let awaits = |op: &Op| matches!(op, Op::Signal);
    match step {
        Step::Dequeue(_)
        | Step::DequeueOrTimer(_)
        | Step::OvertakenReader
        | Step::Mail(_)
        | Step::Answer => true,
        Step::Do(op)
        | Step::Wins(op)
        | Step::Dropped(op)
        | Step::Shielded(op)
        | Step::Cancellable(op) => awaits(op),
        Step::All(ops) => ops.iter().any(awaits),
        Step::Race(a, b) => awaits(a) || awaits(b),
        _ => false,
    }
}

fn limit(rng: &mut Rng, life: &mut LifePlan) {
    life.end = LifeEnd::Limit {
        after: rng.millis(1, 60_000),
    };
    if rng.chance(500) {
        life.program.ending = Ending::Waits;
    }
}

fn add_steps(rng: &mut Rng, kinds: &[usize], program: &mut Program) {
    if kinds.is_empty() {
        return;
    }
    for _ in 0..=rng.below(4) {
        let step = match rng.pick(kinds) {
            0 => Step::Label(rng.below(3) as u8),
            1 => Step::Unlabel(rng.below(3) as u8),
            2 => Step::Mail(1 + rng.below(4) as u8),
            3 => Step::Await(short(rng)),
            _ => Step::Answer,
        };
        let at = rng.below(program.steps.len() + 1);
        program.steps.insert(at, step);
    }
}

/// A program that ends soon, with a value or with a failure.
fn short(rng: &mut Rng) -> Program {
    let op = match rng.below(3) {
        0 => Op::Work(Job::Slow(rng.between(1, 3_000) as u32)),
        1 => Op::Timer(rng.between(0, 4_000) as u32),
        _ => Op::Work(Job::Quick),
    };
    let mut steps = vec![Step::Do(op)];
    if rng.chance(300) {
        steps.extend([Step::Continue, Step::Label(0)]);
    }
    Program {
        steps,
        ending: if rng.chance(250) {
            Ending::Fails
        } else {
            Ending::Returns
        },
        ..Program::default()
    }
}
