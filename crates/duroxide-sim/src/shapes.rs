//! Shapes that chance hardly ever draws, added to the plans of some seeds. In: a drawn plan. Out: the same with one
//! more instance, and the faults that it needs.

use std::time::Duration;

use crate::plan::{Code, LifeEnd, LifePlan, Plan, Rates, RootPlan, SIGNAL_PAUSE, StartPlan};
use crate::program::{Ending, Job, Op, Program, Step};
use crate::rng::Rng;

impl Plan {
    /// A shape that chance hardly ever draws: a child whose first turn comes when its parent has been deleted and
    /// started again, and asks for a child of the same id.
    pub(crate) fn add_unborn_child(&mut self) {
        let child = |steps| {
            Op::Child(Program {
                steps,
                ..Program::default()
            })
        };
        // What the first says must not be taken for what the second says.
        let first = child(vec![Step::Do(Op::Guid), Step::Do(Op::Timer(5))]);
        let second = child(vec![Step::Do(Op::Timer(5))]);
        self.roots.push(RootPlan {
            id: "unborn".to_owned(),
            lives: vec![
                plain_life(Step::Race(first, Op::Work(Job::Quick)), Duration::ZERO),
                plain_life(Step::Do(second), Duration::ZERO),
            ],
        });
        self.rates.late = 400;
        self.rates.late_ms = 8_000;
        self.rates.only = &["ack_orchestration_item"];
    }

    /// Another one: the answer to a commit comes late, when the next turns of the instance are done: one that loaded,
    /// was committed and is in memory, and one that the store has confirmed with that memory and whose claim is being
    /// answered.
    pub(crate) fn add_late_answers(&mut self) {
        // A chance of its own: what is drawn here moves nothing else.
        let mut rng = Rng::new(self.seed ^ 0x1a7e_a45e_1a7e_a45e);
        let pause = rng.millis(60, 400);
        self.roots.push(RootPlan {
            id: "late".to_owned(),
            lives: vec![plain_life(Step::Dequeue(40), pause)],
        });
        // One node, which has the newer state in memory when the late answer comes.
        self.nodes.truncate(1);
        self.nemesis.clear();
        for node in &mut self.nodes {
            node.sticky = 1_024;
            node.slots = 4;
            // Longer than the answers are late: the turn whose memory is spoilt has its lease still.
            node.lock_timeout = Duration::from_secs(5);
        }
        self.rates.late = rng.between(200, 500) as u32;
        self.rates.late_ms = rng.between(600, 2_500);
        // The old answer is heard between the claim of the next turn and the answer to that claim.
        self.rates.only = &["ack_orchestration_item", "claim_turns"];
    }

    /// Another one: an activity waits for its session on its node, and is cancelled meanwhile.
    pub(crate) fn add_waiting_for_session(&mut self) {
        let on_session = |ms| Op::OnSession(7, Job::Slow(ms));
        let steps = vec![
            Step::All(vec![Op::Timer(1), Op::Timer(2)]),
            Step::Race(on_session(300), Op::Timer(1_000)),
            Step::Do(Op::Timer(9_000)),
        ];
        let mut life = plain_life(Step::Do(Op::Guid), Duration::ZERO);
        life.program.steps = steps;
        self.roots.push(RootPlan {
            id: "holder".to_owned(),
            lives: vec![plain_life(Step::Do(on_session(8_000)), Duration::ZERO)],
        });
        self.roots.push(RootPlan {
            id: "waiter".to_owned(),
            lives: vec![life],
        });
        // Nothing else goes wrong: a disturbed node may be late.
        self.rates = Rates::default();
        self.nemesis.clear();
        for node in &mut self.nodes {
            node.slots = 4;
            node.code = vec![Code::ALL];
        }
    }

    /// Another one: a request to cancel comes in one batch with the message that lets the code continue as new.
    pub(crate) fn add_cancel_at_continue(&mut self) {
        let mut rng = Rng::new(self.seed ^ 0xca9c_e1a7_c047_19e5);
        let pause = rng.millis(300, 2_000);
        // Some work first: the checker wants to see that code ran before it asks whether it could put things right.
        let mut life = plain_life(Step::Do(Op::Work(Job::Quick)), pause);
        life.program.steps.push(Step::Dequeue(1));
        for _ in 0..4 {
            life.program
                .steps
                .extend([Step::Continue, Step::Dequeue(1)]);
        }
        life.program.cooperative = true;
        life.program.ending = Ending::Waits;
        life.end = LifeEnd::Cancel {
            after: pause * (1 + rng.below(4) as u32),
            times: 1,
            pause: Duration::ZERO,
        };
        self.roots.push(RootPlan {
            id: "parting".to_owned(),
            lives: vec![life],
        });
        // Claims are late, so that messages gather; nothing else keeps the code from putting things right.
        self.nemesis.clear();
        self.rates = Rates {
            late: 500,
            late_ms: 800,
            only: &["claim_turns"],
            ..Rates::default()
        };
        for node in &mut self.nodes {
            node.code = vec![Code::ALL];
        }
    }

    /// Another one: the store takes no commits of turns for longer than they are tried, but everything else, and
    /// clients go on sending queue messages.
    pub(crate) fn add_spoilt_commits(&mut self) {
        let pause = Duration::from_millis(300);
        self.roots.push(RootPlan {
            id: "spoilt".to_owned(),
            lives: vec![plain_life(Step::Dequeue(20), pause)],
        });
        self.rates.fails_before = 850;
        self.rates.only = &["ack_orchestration_item"];
    }
}

pub(crate) fn plain_life(step: Step, message_pause: Duration) -> LifePlan {
    LifePlan {
        program: Program {
            steps: vec![step],
            ..Program::default()
        },
        start_after: Duration::from_millis(10),
        message_pause,
        signal_pause: SIGNAL_PAUSE,
        end: LifeEnd::Alone,
        prunes: false,
        reads: false,
        pauses: None,
        retries: false,
        start: StartPlan::Plain,
        restarts: false,
    }
}
