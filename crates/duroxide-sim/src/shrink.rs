//! Makes a failing run smaller. In: a plan that fails. Out: one with fewer nodes, instances, lives, steps and faults
//! that fails in the same way. Every candidate is run; what no longer fails is not taken.

use crate::plan::{Nemesis, Plan, Rates};
use crate::world::{self, Report};

/// How many candidates are run at most.
const RUNS_MAX: usize = 600;

/// A smaller plan that fails in the same way, with its report.
#[must_use]
pub fn shrink(plan: &Plan) -> (Plan, Report) {
    let report = world::run(plan, false);
    let sign = sign(&report);
    let mut smallest = plan.clone();
    let mut runs = 0;
    'again: loop {
        for candidate in smaller(&smallest) {
            if runs >= RUNS_MAX {
                break 'again;
            }
            runs += 1;
            if self::sign(&world::run(&candidate, false)) == sign {
                smallest = candidate;
                continue 'again;
            }
        }
        break;
    }
    let report = world::run(&smallest, true);
    (smallest, report)
}

/// What a run failed with, without names and numbers.
fn sign(report: &Report) -> Option<String> {
    let first = report.violations.first()?;
    let words = first.split_whitespace();
    let plain = words.filter(|word| word.chars().all(|c| c.is_ascii_alphabetic()));
    Some(plain.take(6).collect::<Vec<_>>().join(" "))
}

/// Plans with one thing less, the largest things first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut push = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        plans.push(candidate);
    };
    let strikes = plan.nemesis.len();
    if strikes > 1 {
        push(&|p| p.nemesis.truncate(strikes / 2));
        push(&|p| drop(p.nemesis.drain(..strikes / 2)));
    }
    for at in 0..plan.roots.len() {
        if plan.roots.len() > 1 {
            push(&|p| drop(p.roots.remove(at)));
        }
    }
    if plan.nodes.len() > 1 {
        let last = plan.nodes.len() - 1;
        push(&|p| {
            p.nodes.truncate(last);
            p.nemesis
                .retain(|strike| node_of(strike.what) != Some(last));
        });
    }
    for rate in 0..RATES {
        if *rate_of(&mut plan.rates.clone(), rate) > 0 {
            push(&|p| *rate_of(&mut p.rates, rate) = 0);
        }
    }
    for at in 0..strikes {
        push(&|p| {
            p.nemesis.remove(at);
        });
    }
    for (root, lives) in plan.roots.iter().map(|root| &root.lives).enumerate() {
        for (life, plan) in lives.iter().enumerate() {
            if lives.len() > 1 {
                push(&|p| drop(p.roots[root].lives.remove(life)));
            }
            for step in 0..plan.program.steps.len() {
                push(&|p| drop(p.roots[root].lives[life].program.steps.remove(step)));
            }
        }
    }
    plans
}

const RATES: usize = 9;

fn rate_of(rates: &mut Rates, number: usize) -> &mut u32 {
    match number {
        0 => &mut rates.slow,
        1 => &mut rates.late,
        2 => &mut rates.fails_before,
        3 => &mut rates.fails_after,
        4 => &mut rates.never,
        5 => &mut rates.jitter,
        6 => &mut rates.deaf,
        7 => &mut rates.garbage,
        _ => &mut rates.double,
    }
}

fn node_of(what: Nemesis) -> Option<usize> {
    match what {
        Nemesis::Crash { node, .. }
        | Nemesis::Deploy { node, .. }
        | Nemesis::Pause { node, .. }
        | Nemesis::Partition { node, .. } => Some(node),
        Nemesis::Outage { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_smaller_than_the_plan() {
        let size = |plan: &Plan| {
            let lives = plan.roots.iter().flat_map(|root| &root.lives);
            let steps: usize = lives.map(|life| 1 + life.program.steps.len()).sum();
            let mut rates = plan.rates;
            let rates = (0..RATES).filter(|n| *rate_of(&mut rates, *n) > 0).count();
            plan.nodes.len() + plan.roots.len() + plan.nemesis.len() + steps + rates
        };
        for seed in 0..50 {
            let plan = Plan::draw(seed);
            for candidate in smaller(&plan) {
                assert!(size(&candidate) < size(&plan), "seed {seed}");
            }
        }
    }
}
