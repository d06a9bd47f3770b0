//! Programs as data: what the simulated orchestrations do. In: a program, as the input of an instance. Out: a text that
//! depends on the program alone, whatever the timing and the faults; `model.rs` says which.
//!
//! Every operation has a label, its path in the program, so that its effects are recognised whatever its event id is.

use duroxide_core::OrchestrationRef;
use serde::{Deserialize, Serialize};

/// The orchestration that runs programs.
pub const ORCHESTRATION: &str = "program";
/// The activity that every node has, and the one that some lack.
pub const WORK: &str = "work";
pub const RARE_WORK: &str = "rare-work";
pub const QUEUE: &str = "messages";
/// The queue of messages with keys.
pub const KEYED: &str = "keyed";
/// What clients ask for.
pub const REQUEST: &str = "double";
/// The orchestration with its types.
pub const AWAITED: OrchestrationRef<String, String> = OrchestrationRef::new(ORCHESTRATION);
/// What separates the text of a program that returned from the queue messages it took.
pub const TAKEN: &str = "|taken:";
pub const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];
/// A tag that only some workers serve.
pub const TAG: &str = "gpu";

/// What an activity does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    Quick,
    /// Takes this many milliseconds.
    Slow(u32),
    Fails,
    Panics,
    /// Fails this many times, and is tried until it does not.
    Flaky(u8),
    /// Ends only when it is told to; its caller gives up after a while.
    Stuck,
    /// Says this many times how far it is; a later attempt goes on from there.
    Beats(u8),
}

/// How long an activity takes between two heartbeats.
pub const BEAT_MS: u32 = 700;

/// A durable operation with one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Work(Job),
    Rare(Job),
    Tagged(Job),
    OnSession(u8, Job),
    Timer(u32),
    /// A signal that the client raises once it is waited for; only in roots.
    Signal,
    Child(Program),
    NamedChild(Program),
    /// A child that is started again when it fails, this many times in all.
    RetriedChild(Program, u8),
    /// A child under an id that is taken.
    Collide,
    Guid,
    Now,
    /// An effect in place, with a typed result, or a failure.
    InPlace(bool),
}

/// One step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Do(Op),
    All(Vec<Op>),
    /// An operation against one that never ends.
    Wins(Op),
    /// The first to be ready; the answer is not part of the output.
    Race(Op, Op),
    /// Scheduled and dropped in one turn.
    Dropped(Op),
    /// Takes this many queue messages; only in roots.
    Dequeue(u8),
    /// Takes this many queue messages that have keys, and come more than once; only in roots.
    Keyed(u8),
    /// Takes a queue message unless a timer is quicker; only in roots.
    DequeueOrTimer(u32),
    /// Two readers of the queue, of which the older is dropped before it has read; only in roots.
    OvertakenReader,
    KvAdd(u8),
    KvClear(u8),
    Status,
    ResetStatus,
    Detach(Program),
    /// An operation that a request to cancel does not touch; the program ends after it if one came.
    Shielded(Op),
    /// An operation that a request to cancel cuts short; the program ends then.
    Cancellable(Op),
    /// Sets a label.
    Label(u8),
    Unlabel(u8),
    /// Sends itself this many messages and takes them.
    Mail(u8),
    /// Starts a program detached and awaits it all the same.
    Await(Program),
    /// Takes one request of its client and answers it; only in roots.
    Answer,
    Continue,
}

/// A whole program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    pub steps: Vec<Step>,
    pub ending: Ending,
    /// Holds a request to cancel and puts things right before it ends.
    pub cooperative: bool,
    /// Which version of the code runs it, as an index of [`VERSIONS`].
    pub version: usize,
}

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Ending {
    #[default]
    Returns,
    Fails,
    /// Never, unless it is cancelled.
    Waits,
    /// Fails until it is started for this many times.
    FailsUntil(u32),
}

/// A program on its way: the input of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which life of the instance id this is.
    pub life: u32,
    /// Names the program among all of its root.
    pub path: String,
    /// The step to go on with.
    pub at: usize,
    /// What was seen so far.
    pub log: String,
    /// Queue messages that were taken.
    pub queue_messages: Vec<String>,
    pub program: Program,
}

impl Run {
    /// A program from its beginning.
    #[must_use]
    pub fn new(life: u32, path: impl Into<String>, program: Program) -> Self {
        Self {
            life,
            path: path.into(),
            at: 0,
            log: String::new(),
            queue_messages: Vec::new(),
            program,
        }
    }

    /// As the input of an execution.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a program is plain data")
    }
}

/// What an activity is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub label: String,
    pub job: Job,
}

/// What an activity answers: depends on its label alone.
#[must_use]
pub fn answer(label: &str) -> String {
    let fold = |h: u32, b: u8| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    format!("{:x}", label.bytes().fold(0x811c_9dc5, fold))
}
