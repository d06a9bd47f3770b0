//! Draws programs. In: chance, and which features this run uses. Out: programs that always end the same way, unless
//! they are meant to wait for ever.

use crate::program::{Ending, Job, Op, Program, Step};
use crate::rng::Rng;

/// Which parts of the language a run uses: rare shapes become common when few are left.
#[derive(Debug, Clone)]
pub struct Features {
    weights: [u32; 15],
    pub versions: bool,
    pub cooperative: bool,
}

/// The place of queue messages among the weights.
const DEQUEUES: usize = 5;

impl Features {
    /// A random choice.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut weights = [0; 15];
        for (at, weight) in weights.iter_mut().enumerate() {
            // Continuing and reading messages meanwhile is where engines of this kind lose things.
            let likely = matches!(at, 0 | 5 | 12);
            let is_drawn = rng.chance(if likely { 850 } else { 550 });
            *weight = if is_drawn {
                rng.between(1, 6) as u32
            } else {
                0
            };
        }
        weights[0] = weights[0].max(1);
        Self {
            weights,
            versions: rng.chance(500),
            cooperative: rng.chance(450),
        }
    }

    /// The same without queue messages.
    #[must_use]
    pub fn without_dequeues(mut self) -> Self {
        self.weights[DEQUEUES] = 0;
        self
    }

    fn kind(&self, rng: &mut Rng) -> usize {
        let total: u32 = self.weights.iter().sum();
        let mut left = rng.below(total as usize) as u32;
        for (at, weight) in self.weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

/// A program for an instance that clients start.
pub fn root(rng: &mut Rng, features: &Features, size: usize) -> Program {
    program(rng, features, size, 2, true)
}

fn program(rng: &mut Rng, features: &Features, size: usize, depth: u8, is_root: bool) -> Program {
    let length = 1 + rng.below(size);
    let mut continued = 0;
    let mut steps = Vec::with_capacity(length);
    for _ in 0..length {
        let step = step(rng, features, depth, is_root);
        if step == Step::Continue {
            continued += 1;
            if continued > 3 {
                continue;
            }
        }
        steps.push(step);
    }
    let ending = if rng.chance(120) {
        Ending::Fails
    } else {
        Ending::Returns
    };
    Program {
        steps,
        ending,
        cooperative: features.cooperative && rng.chance(600),
        version: usize::from(features.versions && rng.chance(500)),
    }
}

fn step(rng: &mut Rng, features: &Features, depth: u8, is_root: bool) -> Step {
    match features.kind(rng) {
        0 => Step::Do(op(rng, depth, is_root)),
        1 => {
            let count = 2 + rng.below(4);
            Step::All((0..count).map(|_| op(rng, depth, is_root)).collect())
        }
        2 => Step::Wins(op(rng, depth, is_root)),
        3 if rng.chance(350) => {
            // Activities of one session wait for each other, and may be cancelled while they do.
            let job = Job::Slow(rng.between(500, 6_000) as u32);
            let patience = Op::Timer(rng.between(1, 3_000) as u32);
            Step::Race(Op::OnSession(rng.below(2) as u8, job), patience)
        }
        3 => Step::Race(op(rng, depth, false), op(rng, depth, false)),
        4 => Step::Dropped(op(rng, depth, false)),
        5 if is_root => match rng.below(10) {
            0..=2 => Step::DequeueOrTimer(rng.between(1, 4_000) as u32),
            3 => Step::OvertakenReader,
            _ => Step::Dequeue(1 + rng.below(4) as u8),
        },
        6 => Step::KvAdd(rng.below(3) as u8),
        7 => Step::KvClear(rng.below(3) as u8),
        8 => Step::Status,
        9 => Step::ResetStatus,
        10 if depth > 0 => {
            let features = Features::draw(rng);
            Step::Detach(program(rng, &features, 3, 0, false))
        }
        11 => Step::Do(Op::Timer(rng.between(0, 15_000) as u32)),
        12 => Step::Continue,
        13 => Step::Shielded(op(rng, depth, is_root)),
        14 => Step::Cancellable(op(rng, depth, is_root)),
        _ => Step::Do(Op::Work(Job::Quick)),
    }
}

fn op(rng: &mut Rng, depth: u8, is_root: bool) -> Op {
    match rng.below(22) {
        0..=5 => Op::Work(job(rng)),
        6 => Op::Rare(job(rng)),
        7 => Op::Tagged(job(rng)),
        8 | 9 => Op::OnSession(rng.below(5) as u8, job(rng)),
        10..=12 => Op::Timer(rng.between(0, 8_000) as u32),
        13 | 14 if is_root => Op::Signal,
        15 | 16 if depth > 0 => Op::Child(child(rng, depth)),
        17 if depth > 0 => Op::NamedChild(child(rng, depth)),
        18 => Op::Guid,
        19 => {
            if rng.chance(600) {
                Op::Collide
            } else {
                Op::Now
            }
        }
        20 | 21 => Op::InPlace(rng.chance(300)),
        _ => Op::Work(Job::Quick),
    }
}

fn child(rng: &mut Rng, depth: u8) -> Program {
    let features = Features::draw(rng);
    program(rng, &features, 4, depth - 1, false)
}

fn job(rng: &mut Rng) -> Job {
    match rng.below(12) {
        0..=4 => Job::Quick,
        5 | 6 => Job::Slow(rng.between(1, 3_000) as u32),
        7 | 8 => Job::Slow(rng.between(1_000, 20_000) as u32),
        9 => Job::Fails,
        10 => {
            if rng.chance(700) {
                Job::Flaky(1 + rng.below(3) as u8)
            } else {
                Job::Stuck
            }
        }
        _ => Job::Panics,
    }
}
