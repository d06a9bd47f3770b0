//! Adds to a drawn plan what the language learnt last: heartbeats, messages with keys, conditional starts, children
//! that are tried again, restarts under another id, and requeued dead letters. In: a plan and its seed. Out: the plan
//! with some of that in it. Drawn from a chance of its own, and only for every fifth seed, so that the others stand for
//! the runs they always stood for.

use std::time::Duration;

use crate::plan::{Plan, RootPlan, StartPlan};
use crate::program::{Ending, Job, Op, Program, Step};
use crate::rng::Rng;
use crate::shapes::plain_life;

impl Plan {
    /// The same plan with the latest parts of the language, if its seed has them.
    #[must_use]
    pub(crate) fn with_latest(mut self) -> Self {
        let mut lives = self.roots.iter().flat_map(|root| &root.lives);
        if self.seed % 5 != 2 || lives.any(|life| life.retries) {
            return self;
        }
        let mut rng = Rng::new(self.seed ^ 0x1a7e_57c0_de11_a9e5);
        // Rare shapes become common when few are left.
        let kinds: Vec<usize> = (0..3).filter(|_| rng.chance(600)).collect();
        let submits = rng.chance(500);
        for life in self.roots.iter_mut().flat_map(|root| &mut root.lives) {
            add_steps(&mut rng, &kinds, &mut life.program);
            if submits && rng.chance(600) {
                life.start = *rng.pick(&[StartPlan::Once, StartPlan::InPlace]);
            }
        }
        self.requeues = rng.chance(400);
        if rng.chance(400) {
            self.roots.push(restarted(&mut rng));
        }
        self
    }
}

fn add_steps(rng: &mut Rng, kinds: &[usize], program: &mut Program) {
    if kinds.is_empty() {
        return;
    }
    for _ in 0..=rng.below(3) {
        let step = match rng.pick(kinds) {
            0 => Step::Do(Op::Work(Job::Beats(1 + rng.below(12) as u8))),
            1 => Step::Keyed(1 + rng.below(4) as u8),
            _ => retried_child(rng),
        };
        let at = rng.below(program.steps.len() + 1);
        program.steps.insert(at, step);
    }
}

/// A child that fails some times, and is started again as often or not.
fn retried_child(rng: &mut Rng) -> Step {
    let program = Program {
        steps: vec![without_work(rng)],
        ending: Ending::FailsUntil(1 + rng.below(4) as u32),
        ..Program::default()
    };
    let child = Op::RetriedChild(program, 1 + rng.below(4) as u8);
    if rng.chance(250) {
        Step::Race(child, Op::Timer(rng.between(1, 3_000) as u32))
    } else {
        Step::Do(child)
    }
}

/// A step that no activity is needed for: what is done again is not counted.
fn without_work(rng: &mut Rng) -> Step {
    match rng.below(4) {
        0 => Step::Do(Op::Timer(rng.between(0, 4_000) as u32)),
        1 => Step::Do(Op::Guid),
        2 => Step::Status,
        _ => Step::Label(rng.below(3) as u8),
    }
}

/// An instance that is started again under another id when it has ended. It begins with the input of the last
/// execution, and with none of what the instance kept beside: it looks at neither.
fn restarted(rng: &mut Rng) -> RootPlan {
    let mut step = || {
        if rng.chance(500) {
            Step::Do(Op::Timer(rng.between(0, 4_000) as u32))
        } else {
            Step::Do(Op::Guid)
        }
    };
    let (first, second) = (step(), step());
    let mut life = plain_life(first, Duration::ZERO);
    life.restarts = true;
    if rng.chance(500) {
        life.program.steps.extend([Step::Continue, second]);
    }
    if rng.chance(300) {
        life.program.ending = Ending::Fails;
    }
    RootPlan {
        id: "again".to_owned(),
        lives: vec![life],
    }
}
