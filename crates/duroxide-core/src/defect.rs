//! Defects that engines of this kind have had, one of which can be put back on purpose. In: which one. Out: whether the
//! code at hand shall have it. For the proof that the simulation finds them (`cargo xtask sim --defects`).
//!
//! Only a build with `--cfg duroxide_mutants` can have one. In every other build [`Defect::is_on`] is the constant
//! `false`, and nothing of this is left.

/// Makes the list of defects: their names, where each was seen (A in reviews of this engine, U in published ones), and
/// what is wrong with code that has it.
macro_rules! defects {
    ($($name:ident: $seen:literal, $wrong:literal;)*) => {
        /// A defect that can be put back.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Defect {
            $(
                #[doc = concat!($seen, ": ", $wrong, ".")]
                $name,
            )*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Where it was seen, and what is wrong with code that has it.
            #[must_use]
            pub const fn describe(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($seen, $wrong),)*
                }
            }
        }
    };
}

defects! {
    LateAnswerReplacesNewer: "A0",
        "a late answer to a commit puts an older state into memory in the way of a newer one";
    OldFutureAfterRestart: "A1",
        "an id that was deleted and started again is continued with the future of its earlier life";
    MissingOrchestrationCounts: "A2",
        "a node claims instances that it has no code for, and each claim counts as an attempt";
    MissingActivityCounts: "A2",
        "a node claims activities that it has no code for, and each claim counts as an attempt";
    CompletionDroppedAfterOutage: "A5",
        "the result of an activity is thrown away when the store is away for a second";
    WorkKeptAtShutdown: "A6",
        "a shutdown leaves aborted work under its lease";
    SessionsPinnedByBatch: "A7",
        "a batch claim takes more sessions than the node may serve";
    QueueMessagesLostAtContinue: "A9",
        "continue-as-new carries one unread queue message and drops the rest";
    KeyPerAttempt: "A10",
        "each attempt of a retried activity has an idempotency key of its own";
    LostLeaseBegins: "A11",
        "an activity that waited for its session begins though its lease is lost";
    SecondCancelKills: "A12",
        "a second request to cancel ends code that is winding down";
    LateCancelKills: "A12",
        "a request to cancel that comes with the message that lets code continue as new ends it";
    MessagesLostBetweenExecutions: "U1",
        "messages that come between two executions are dropped";
    ParentLostAtContinue: "U2",
        "a child that continues as new forgets its parent";
    CollisionUnanswered: "U3",
        "a child whose id is taken is never answered";
    DroppedReaderTakes: "U4",
        "a dropped read of a queue still takes a message";
    SnapshotOfCurrent: "U6",
        "the key-values that replay begins with are those of the running execution";
    CommitTakesLaterMessages: "U7",
        "a commit takes messages with it that came after its claim";
    RenewalEndsAtStop: "U9",
        "leases are not renewed any more while a shutdown lets work finish";
    LatestVersionReplays: "U11",
        "replay runs the newest version instead of the recorded one";
    DuplicateAccepted: "U14",
        "a completion that is delivered twice is recorded twice";
    UnfencedCommit: "U18",
        "a turn is committed without a check of its lease";
    LapsedLeaseCounts: "U18",
        "the store takes writes of a lease that has lapsed";
    NodeClockDecides: "U20",
        "due times are computed by the node's clock";
    CancelBeforeSchedule: "U22",
        "an activity that is scheduled and cancelled in one turn runs";
    LostWakeUp: "U24",
        "a commit does not wake the claims that wait for its messages";
    DroppedChildRunsOn: "U33",
        "a child whose future was dropped is not cancelled";
    LeasesNotRenewed: "U28",
        "a lease is not renewed after one failure";
    CancelLeavesWork: "U22",
        "an activity that was cancelled stays queued";
    DeleteLeavesMessages: "A1",
        "messages of a deleted instance reach the next one of its id";
    OtherLifeAccepted: "A1",
        "a completion of an earlier life of an id is accepted by a later one";
    CancelLost: "U1",
        "a request to cancel that comes with other messages is dropped";
    TagIgnored: "U24",
        "a worker takes activities whose tag it does not serve";
    SessionRunsTwice: "A7",
        "two activities of a session that belongs to one slot run at once";
    ForgivenessForgotten: "A6",
        "work that is given back uncounted is counted all the same";
    KeyValuesLostAtContinue: "U6",
        "key-values do not outlive continue-as-new";
    StatusLostAtContinue: "U2",
        "the custom status does not outlive continue-as-new";
    RefusalToEarlierLife: "A1",
        "the refusal of a child's start goes to an earlier life of its parent";
    UnbornOutlivesParent: "A1",
        "a child that a deleted life of its parent asked for begins all the same";
    TimeGoesBack: "U20",
        "recorded time goes back when a clock does";
    SpoiltTurnRests: "U7",
        "messages of a turn that an outage spoilt rest, and later ones overtake them";
}

impl Defect {
    /// Whether the code at hand shall have it.
    #[cfg(not(duroxide_mutants))]
    #[must_use]
    #[inline(always)]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether the code at hand shall have it.
    #[cfg(duroxide_mutants)]
    #[must_use]
    pub fn is_on(self) -> bool {
        ON.with(|on| on.get() == Some(self))
    }

    /// From now on code that this thread runs has this defect, or none.
    #[cfg(duroxide_mutants)]
    pub fn put_back(defect: Option<Self>) {
        ON.with(|on| on.set(defect));
    }
}

#[cfg(duroxide_mutants)]
thread_local! {
    static ON: std::cell::Cell<Option<Defect>> = const { std::cell::Cell::new(None) };
}
