//! What a run consists of, drawn from its seed before it begins. In: a seed. Out: nodes, faults, programs, clients, as
//! plain data that a shrinker can make smaller.

use std::time::Duration;

use crate::generate::{self, Features};
use crate::program::{BEAT_MS, Ending, Job, Op, Program, Step};
use crate::rng::Rng;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Determines every order and every fault of the run.
    pub seed: u64,
    pub nodes: Vec<NodePlan>,
    pub roots: Vec<RootPlan>,
    pub rates: Rates,
    pub nemesis: Vec<Strike>,
    /// When faults stop.
    pub heal_at: Duration,
    /// An operator puts dead letters back into their queues, as long as faults last.
    pub requeues: bool,
}

/// One node.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// What it has code for, life after life; the last entry stays.
    pub code: Vec<Code>,
    /// How far its clock is off, in milliseconds.
    pub skew_ms: i64,
    pub slots: usize,
    pub sticky: usize,
    pub sessions_max: usize,
    /// Serves the tag.
    pub serves_tag: bool,
    pub stable_id: bool,
    /// An instance that its code does not fit is blocked, and does not fail.
    pub blocks: bool,
    pub lock_timeout: Duration,
    pub worker_lock_timeout: Duration,
}

/// What one life of a node has handlers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub versions: [bool; 2],
    pub rare_work: bool,
    /// Does something else when it replays a history.
    pub is_broken: bool,
}

impl Code {
    /// Everything.
    pub const ALL: Self = Self {
        versions: [true, true],
        rare_work: true,
        is_broken: false,
    };
}

/// An instance id that a client uses, life after life.
#[derive(Debug, Clone)]
pub struct RootPlan {
    pub id: String,
    pub lives: Vec<LifePlan>,
}

/// One life of an instance id, as its client sees it.
#[derive(Debug, Clone)]
pub struct LifePlan {
    pub program: Program,
    /// The client starts it this long after the run, or the life before, began.
    pub start_after: Duration,
    /// Pauses between the queue messages it sends.
    pub message_pause: Duration,
    /// Pauses between its looks for signals that are waited for.
    pub signal_pause: Duration,
    pub end: LifeEnd,
    pub prunes: bool,
    pub reads: bool,
    /// The client pauses the instance again and again, this long after it has resumed it.
    pub pauses: Option<Duration>,
    /// The client retries it whenever it ends as cancelled: it ends as if nobody had asked.
    pub retries: bool,
    pub start: StartPlan,
    /// When it has ended, the client starts it once more under another id, which must end alike.
    pub restarts: bool,
}

/// How a client starts a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartPlan {
    /// Whatever has the id; the life before was deleted.
    #[default]
    Plain,
    /// As a request of its own, which a repetition names; refused if something else has the id.
    Once,
    /// The same, in the place of the life before, which has ended.
    InPlace,
}

pub(crate) const SIGNAL_PAUSE: Duration = Duration::from_millis(700);

/// How a client lets a life end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeEnd {
    /// By itself.
    Alone,
    /// A request to cancel, this long after the start, sent this many times.
    Cancel {
        after: Duration,
        times: u8,
        pause: Duration,
    },
    /// A request to terminate.
    Terminate { after: Duration },
    /// Deleted in the middle, with force.
    Delete { after: Duration },
    /// Started with a time limit.
    Limit { after: Duration },
}

/// How often calls of a node to the store go wrong, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Takes some milliseconds.
    pub slow: u32,
    /// Takes long, before or after it took effect.
    pub late: u32,
    /// How long that is at most, in milliseconds.
    pub late_ms: u64,
    pub fails_before: u32,
    pub fails_after: u32,
    /// Took effect, and the answer never comes.
    pub never: u32,
    /// Steps inside one call to the store are interleaved with others.
    pub jitter: u32,
    /// A waiting claim misses what happens meanwhile.
    pub deaf: u32,
    /// A completion is delivered twice.
    pub double: u32,
    /// A message comes that cannot be read.
    pub garbage: u32,
    /// Operations that go wrong; empty for all.
    pub only: &'static [&'static str],
}

/// Something that happens to a node or to the store.
#[derive(Debug, Clone, Copy)]
pub struct Strike {
    pub at: Duration,
    pub what: Nemesis,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nemesis {
    /// The node dies where it stands and comes back.
    Crash { node: usize, down: Duration },
    /// The node is shut down with this grace and comes back, with the code of its next life.
    Deploy {
        node: usize,
        grace: Duration,
        down: Duration,
    },
    /// The node stands still and goes on.
    Pause { node: usize, length: Duration },
    /// The node does not reach the store.
    Partition { node: usize, length: Duration },
    /// No node reaches the store.
    Outage { length: Duration },
}

/// How long all activities of the programs take together, one after the other.
fn work_ms(program: &Program) -> u64 {
    let op = |op: &Op| match op {
        Op::Work(job) | Op::Rare(job) | Op::Tagged(job) | Op::OnSession(_, job) => match job {
            Job::Slow(ms) => u64::from(*ms),
            Job::Stuck => 8_000,
            Job::Beats(times) => u64::from(*times) * u64::from(BEAT_MS),
            Job::Quick | Job::Fails | Job::Panics | Job::Flaky(_) => 200,
        },
        Op::Child(program) | Op::NamedChild(program) => work_ms(program),
        _ => 0,
    };
    let step = |step: &Step| match step {
        Step::Do(one)
        | Step::Wins(one)
        | Step::Dropped(one)
        | Step::Shielded(one)
        | Step::Cancellable(one) => op(one),
        Step::All(all) => all.iter().map(op).sum(),
        Step::Race(a, b) => op(a) + op(b),
        Step::Detach(program) | Step::Await(program) => work_ms(program),
        _ => 0,
    };
    program.steps.iter().map(step).sum::<u64>() + 2_000
}

impl Plan {
    /// How long all activities take together, if one slot does them one after the other.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        let lives = self.roots.iter().flat_map(|root| &root.lives);
        lives.map(|life| work_ms(&life.program)).sum()
    }

    /// The run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_5eed_5eed_5eed);
        let nodes = 1 + rng.below(4);
        let heal_at = Duration::from_millis(rng.between(20_000, 90_000));
        let blocks = rng.chance(150);
        let nodes = (0..nodes).map(|at| node(&mut rng, at, blocks));
        let nodes: Vec<NodePlan> = nodes.collect();
        let features = Features::draw(&mut rng);
        // Messages of a blocked instance rest, and later ones may overtake them.
        let features = if blocks {
            features.without_dequeues()
        } else {
            features
        };
        let roots = 1 + rng.below(5);
        let roots = (0..roots).map(|at| root(&mut rng, &features, at)).collect();
        let mut plan = Self {
            seed,
            rates: rates(&mut rng),
            nemesis: nemesis(&mut rng, nodes.len(), heal_at),
            nodes,
            roots,
            heal_at,
            requeues: false,
        };
        match seed % 29 {
            7 => plan.add_unborn_child(),
            11 if !blocks => plan.add_spoilt_commits(),
            13 if !blocks => plan.add_late_answers(),
            17 => plan.add_waiting_for_session(),
            23 if !blocks => plan.add_cancel_at_continue(),
            _ => {}
        }
        plan.with_newer().with_latest()
    }
}

fn node(rng: &mut Rng, at: usize, blocks: bool) -> NodePlan {
    // Some node always has everything, so that nothing waits for code that never comes.
    let code = |rng: &mut Rng| {
        if at == 0 || rng.chance(600) {
            Code::ALL
        } else {
            Code {
                versions: *rng.pick(&[[true, false], [false, true], [false, false], [true, true]]),
                rare_work: rng.chance(500),
                is_broken: blocks && rng.chance(500),
            }
        }
    };
    let lease = |rng: &mut Rng| Duration::from_millis(*rng.pick(&[1_500, 3_000, 5_000, 10_000]));
    NodePlan {
        code: (0..3).map(|_| code(rng)).collect(),
        skew_ms: if rng.chance(250) {
            *rng.pick(&[-3_600_000, -30_000, 2_000, 3_600_000])
        } else {
            0
        },
        slots: *rng.pick(&[1, 2, 4, 64]),
        sticky: *rng.pick(&[0, 1, 1024, 1024]),
        sessions_max: *rng.pick(&[1, 2, 10]),
        serves_tag: at == 0 || rng.chance(500),
        stable_id: rng.chance(300),
        blocks,
        lock_timeout: lease(rng),
        worker_lock_timeout: lease(rng) * 2,
    }
}

fn root(rng: &mut Rng, features: &Features, at: usize) -> RootPlan {
    let lives = if rng.chance(350) { 2 + rng.below(2) } else { 1 };
    RootPlan {
        id: format!("i{at}"),
        lives: (0..lives).map(|_| life(rng, features)).collect(),
    }
}

fn life(rng: &mut Rng, features: &Features) -> LifePlan {
    let mut program = generate::root(rng, features, 8);
    let after = rng.millis(0, 40_000);
    let end = match rng.below(12) {
        0 | 1 => LifeEnd::Cancel {
            after,
            times: 1 + rng.below(3) as u8,
            pause: rng.millis(0, 3_000),
        },
        2 => LifeEnd::Terminate { after },
        3 | 4 => LifeEnd::Delete { after },
        _ => LifeEnd::Alone,
    };
    let waits = if program.cooperative { 850 } else { 500 };
    if end != LifeEnd::Alone && rng.chance(waits) {
        program.ending = Ending::Waits;
    }
    LifePlan {
        program,
        start_after: rng.millis(0, 20_000),
        message_pause: rng.millis(0, 5_000),
        signal_pause: SIGNAL_PAUSE,
        end,
        prunes: rng.chance(200),
        reads: rng.chance(300),
        pauses: None,
        retries: false,
        start: StartPlan::Plain,
        restarts: false,
    }
}

/// Operations that alone may go wrong.
const FRAGILE: &[&str] = &[
    "claim_turns",
    "claim_work",
    "ack_orchestration_item",
    "ack_work_item",
    "renew_work_item_lock",
    "renew_orchestration_item_lock",
];

fn rates(rng: &mut Rng) -> Rates {
    let is_laggy = rng.chance(200);
    let mut rate = |often: u32, most: u64| {
        if rng.chance(often) {
            rng.between(1, most) as u32
        } else {
            0
        }
    };
    Rates {
        slow: rate(700, 300),
        late: if is_laggy {
            rate(1_000, 300)
        } else {
            rate(350, 20)
        },
        late_ms: if is_laggy { 1_200 } else { 60_000 },
        fails_before: rate(500, 60),
        fails_after: rate(500, 60),
        never: rate(150, 10),
        jitter: rate(600, 500),
        deaf: rate(250, 300),
        double: rate(300, 200),
        garbage: rate(200, 200),
        only: if rng.chance(200) {
            std::slice::from_ref(rng.pick(FRAGILE))
        } else {
            &[]
        },
    }
}

fn nemesis(rng: &mut Rng, nodes: usize, heal_at: Duration) -> Vec<Strike> {
    let count = rng.below(28);
    let span = heal_at.as_millis() as u64;
    let kinds: Vec<usize> = (0..6).filter(|_| rng.chance(700)).collect();
    let mut strikes: Vec<Strike> = (0..count)
        .filter_map(|_| {
            let kind = *kinds.get(rng.below(kinds.len()))?;
            let node = rng.below(nodes);
            let down = rng.millis(10, 10_000);
            let what = match kind {
                0..=2 => Nemesis::Crash { node, down },
                3 => Nemesis::Deploy {
                    node,
                    grace: Duration::from_millis(*rng.pick(&[0, 50, 1_000, 6_000, 25_000])),
                    down,
                },
                4 => {
                    if rng.chance(500) {
                        Nemesis::Pause {
                            node,
                            length: rng.millis(100, 40_000),
                        }
                    } else {
                        Nemesis::Partition {
                            node,
                            length: rng.millis(10, 40_000),
                        }
                    }
                }
                _ => Nemesis::Outage {
                    length: rng.millis(5, 60_000),
                },
            };
            let at = Duration::from_millis(rng.between(0, span));
            Some(Strike { at, what })
        })
        .collect();
    strikes.sort_by_key(|strike| strike.at);
    strikes
}
