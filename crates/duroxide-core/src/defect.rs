//! Defects that engines of this kind have had, one of which can be put back on purpose. In: which one. Out: whether the
//! code at hand shall have it. For the proof that the simulation finds them (`cargo xtask sim --defects`).
//!
//! Only a build with `--cfg duroxide_mutants` can have one. In every other build [`Defect::is_on`] is the constant
//! `false`, and nothing of this is left.

/// Makes the list of defects: their names, where each was seen, and
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
    LateAnswerReplacesNewer: "this engine",
        "a late answer to a commit puts an older state into memory in the way of a newer one";
    OldFutureAfterRestart: "this engine",
        "an id that was deleted and started again is continued with the future of its earlier life";
    MissingOrchestrationCounts: "this engine",
        "a node claims instances that it has no code for, and each claim counts as an attempt";
    MissingActivityCounts: "this engine",
        "a node claims activities that it has no code for, and each claim counts as an attempt";
    CompletionDroppedAfterOutage: "this engine",
        "the result of an activity is thrown away when the store is away for a second";
    WorkKeptAtShutdown: "this engine",
        "a shutdown leaves aborted work under its lease";
    SessionsPinnedByBatch: "this engine",
        "a batch claim takes more sessions than the node may serve";
    QueueMessagesLostAtContinue: "this engine",
        "continue-as-new carries one unread queue message and drops the rest";
    KeyPerAttempt: "this engine",
        "each attempt of a retried activity has an idempotency key of its own";
    LostLeaseBegins: "this engine",
        "an activity that waited for its session begins though its lease is lost";
    SecondCancelKills: "this engine",
        "a second request to cancel ends code that is winding down";
    LateCancelKills: "this engine",
        "a request to cancel that comes with the message that lets code continue as new ends it";
    MessagesLostBetweenExecutions: "published engines",
        "messages that come between two executions are dropped";
    ParentLostAtContinue: "published engines",
        "a child that continues as new forgets its parent";
    CollisionUnanswered: "published engines",
        "a child whose id is taken is never answered";
    DroppedReaderTakes: "published engines",
        "a dropped read of a queue still takes a message";
    SnapshotOfCurrent: "published engines",
        "the key-values that replay begins with are those of the running execution";
    CommitTakesLaterMessages: "published engines",
        "a commit takes messages with it that came after its claim";
    RenewalEndsAtStop: "published engines",
        "leases are not renewed any more while a shutdown lets work finish";
    LatestVersionReplays: "published engines",
        "replay runs the newest version instead of the recorded one";
    DuplicateAccepted: "published engines",
        "a completion that is delivered twice is recorded twice";
    UnfencedCommit: "published engines",
        "a turn is committed without a check of its lease";
    LapsedLeaseCounts: "published engines",
        "the store takes writes of a lease that has run out";
    NodeClockDecides: "published engines",
        "due times are computed by the node's clock";
    CancelBeforeSchedule: "published engines",
        "an activity that is scheduled and cancelled in one turn runs";
    LostWakeUp: "published engines",
        "a commit does not wake the claims that wait for its messages";
    DroppedChildRunsOn: "published engines",
        "a child whose future was dropped is not cancelled";
    LeasesNotRenewed: "published engines",
        "a lease is not renewed after one failure";
    CancelLeavesWork: "published engines",
        "an activity that was cancelled stays queued";
    DeleteLeavesMessages: "this engine",
        "messages of a deleted instance reach the next one of its id";
    OtherLifeAccepted: "this engine",
        "a completion of an earlier life of an id is accepted by a later one";
    CancelLost: "published engines",
        "a request to cancel that comes with other messages is dropped";
    TagIgnored: "published engines",
        "a worker takes activities whose tag it does not serve";
    SessionRunsTwice: "this engine",
        "two activities of a session that belongs to one slot run at once";
    ForgivenessForgotten: "this engine",
        "work that is given back uncounted is counted all the same";
    KeyValuesLostAtContinue: "published engines",
        "key-values do not outlive continue-as-new";
    StatusLostAtContinue: "published engines",
        "the custom status does not outlive continue-as-new";
    RefusalToEarlierLife: "this engine",
        "the refusal of a child's start goes to an earlier life of its parent";
    UnbornOutlivesParent: "this engine",
        "a child that a deleted life of its parent asked for begins all the same";
    TimeGoesBack: "published engines",
        "recorded time goes back when a clock does";
    BlockedForEver: "this engine",
        "an instance that was blocked once is never tried again";
    UnrecordedStart: "published engines",
        "a detached start is sent and not recorded";
    FreshInReplay: "published engines",
        "a random id is another one when it is replayed";
    SpoiltTurnRests: "published engines",
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
