//! Providers that break one promise each, to show that the kit notices.
//!
//! In: the reference store and a [`Flaw`]. Out: a provider that is right in everything but that. Each flaw is a slip
//! that a real store has made or could make.

mod admin;
mod blocks;
mod causes;
mod commits;
mod contract;
mod engine;
mod excused;
mod factory;
mod fetches;
mod full;
mod holds;
mod labels;
mod leases;
mod matrix;
mod nodes;
mod notes;
mod provider;
mod queries;
mod reads;
mod slips;
mod snapshots;
mod strangers;
mod submissions;
mod two_steps;
mod work;

use std::sync::Arc;

use duroxide_runtime::observability::Layered;
use duroxide_store::MemoryProvider;

use self::causes::Seen;
use self::notes::Notes;
use crate::reference::MovableClock;

/// The reference store with one flaw.
pub(crate) struct Mutant {
    inner: Arc<MemoryProvider>,
    flaw: Flaw,
    notes: Notes,
    seen: Seen,
}

impl Mutant {
    fn around(reference: MemoryProvider, flaw: Flaw, clock: Arc<MovableClock>) -> Layered<Self> {
        let inner = Arc::new(reference);
        let mutant = Self {
            inner: Arc::clone(&inner),
            flaw,
            notes: Notes::default(),
            seen: Seen::by(clock),
        };
        Layered::around(inner, mutant)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }
}

macro_rules! flaws {
    ($($name:ident: $promise:literal;)*) => {
        /// The promise that a mutant breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Flaw {
            $($name,)*
        }

        impl Flaw {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// What the mutant does wrong.
            fn story(self) -> &'static str {
                match self {
                    $(Self::$name => $promise,)*
                }
            }
        }
    };
}

flaws! {
    LeaseIsNoLease: "a claimed instance is handed to the next claimer at once";
    LeaseLastsForEver: "a claimed instance is never handed out again";
    LeaseIsLimitedTooLate: "a fetch takes an endless lease and limits it in a second step";
    KeepsNothing: "everything is in memory, and gone when the store is opened again";
    OneTokenForAll: "every claim of an instance gets the same token";
    LostRaceIsNoWork: "a claimer that meets another one is told that there is no work";
    CommitsWithoutFencing: "the commit of a lost lease appends its events all the same";
    LeaseIsCheckedFirst: "a commit looks at its lease, and writes in a second step";
    CommitsTwice: "a second commit with the same token succeeds";
    CommitInTwoSteps: "activities of a commit are enqueued after it";
    CommitLeavesHalf: "activities of a commit that fails stay";
    OverwritesEvents: "an event id that exists is silently skipped";
    AcceptsEventZero: "events without a position are silently skipped";
    IgnoresStatusOfEmptyTurn: "the status of a commit without events is not stored";
    LosesParent: "the parent of a child is not stored";
    ForgetsPinnedVersion: "the pinned version is not stored";
    ExecutionStuck: "a fetch always reports execution 1";
    ReversesMessages: "the messages of a batch come newest first";
    LosesLastMessage: "the last message of a larger batch is not handed out";
    ReversesHistory: "a history is read newest first";
    RestampsEvents: "events are read with the version of the reader";
    AbandonKeepsLease: "an abandoned instance stays leased";
    AbandonIgnoresDelay: "a delay on abandon is not kept";
    AbandonDelaysAll: "a delay on abandon also hides messages that came later";
    RestIsNoRest: "an instance that should rest is handed out at once";
    RestIsOvertaken: "messages that come later overtake those that rest";
    RestIsDeaf: "a message that comes does not end a rest";
    AbandonAlwaysCounts: "an abandon that should not count as an attempt does";
    AbandonNeverCounts: "an abandon never counts as an attempt";
    AbandonForgivesStrangers: "abandoning with an unknown token succeeds";
    AttemptsFromZero: "attempts are counted from zero";
    AttemptsNotKept: "every claim is reported as the first attempt";
    RenewalRevives: "a renewal of a lost instance lease succeeds";
    RenewalIsLostOnTurns: "a renewal of an instance lease changes nothing";
    LostLeaseUnnamed: "a commit under a lost lease fails without saying why";
    IgnoresFilter: "the capability filter is ignored";
    FirstRangeOnly: "only the first range of a filter is used";
    RangesAreOne: "the ranges of a filter admit what lies between them";
    EmptyFilterAdmitsAll: "a filter without ranges lets everything through";
    IgnoresDelays: "delayed messages are visible at once";
    TimersAtOnce: "timers of a commit are visible at once";
    DropsEarlyMessages: "a message that arrives before its start is dropped";
    OrphanBlocksQueue: "a message for an unknown instance stops the queue";
    HistoryErrorIsError: "a damaged history makes the fetch fail while the lease is held";
    DamageReadsAsEmpty: "a damaged history is read as an empty one";
    KvSnapshotTooNew: "the snapshot holds the running execution's values";
    KvSnapshotEmpty: "the snapshot is always empty";
    KvTrimsKeys: "spaces around a key are cut off";
    StatusVersionStuck: "the version of the custom status is always 1";
    DropsTag: "the tag of an activity is not stored";
    TagNoneIsAny: "a worker that wants nothing gets everything";
    ReordersWork: "the second activity is handed out before the first";
    WorkLeaseIsNoLease: "a claimed activity is handed to the next worker at once";
    AcksWorkWithoutFencing: "the ack of a lost activity delivers its result";
    LosesCompletion: "the result of an acked activity is lost";
    AcceptsAnyCompletion: "an ack accepts any message as a result";
    WorkRenewalRevives: "a renewal of a lost activity lease succeeds";
    WorkRenewalIsLost: "a renewal of an activity lease changes nothing";
    HeartbeatsUnfenced: "what an activity says under a lost lease is kept";
    HeartbeatExtendsNothing: "a heartbeat keeps its details and extends no lease";
    HeartbeatPerAttempt: "what an attempt said is not found by the next one";
    HeartbeatForInstance: "all calls of an instance share one heartbeat";
    HeartbeatsOutliveAll: "what was said outlasts its execution and its instance";
    CancelBeforeInsert: "a commit cancels before it enqueues";
    CancelIgnored: "cancelled activities stay";
    CancelSparesClaimed: "claimed activities are not cancelled";
    SessionsShared: "all owners share their sessions";
    SessionlessGetsSessions: "a worker without sessions gets session work";
    SessionIdleIgnored: "idle sessions are renewed";
    CleanupDoesNothing: "expired sessions are never removed";
    DeletesRunning: "a running instance is deleted without force";
    BulkDeletesAll: "bulk deletion takes what runs";
    PrunesTooMuch: "pruning ignores how many to keep";
    OutputIsEmptyText: "no output is reported as an empty one";
    TimesAreZero: "creation and start times are zero";
    DepthsCountClaimed: "claimed rows are counted as waiting";
    ListsOldestFirst: "instances are listed oldest first";
    SizesAreCharacters: "sizes of values are counted in characters";
    NeverWaits: "a fetch never waits for work";
    SleepsThroughWork: "a waiting fetch is not woken";
    WatchNeverWakes: "a watching client is not woken";
    WatchTellsAnotherEnd: "a watch tells an end that is not the one stored";
    WatchCallsAllRunning: "a watch calls every instance running";
    TrustsCache: "a history in the caller's memory is confirmed unseen";
    ConfirmsAnyLife: "a history of an earlier life is confirmed if its length is right";
    LifePerClaim: "every claim tells a life of its own";
    LifePerId: "all lives of an id are told as one";
    WorkNamesNoLife: "an activity names a life that no instance has";
    ResultsReachAnyLife: "a child's result is delivered to any life of the parent's id";
    LaterRefusalIsLost: "of several parents that a commit answers only the first hears of it";
    RefusalEndsWithItsSender: "who asked is not told by a turn that continues as new";
    RefusalEndsWithItsAsker: "who has continued as new since it asked is not told";
    IgnoresHandlers: "an instance goes to a node without its code";
    PassedOverIsAnAttempt: "to be passed over for want of code counts as an attempt";
    OnlyTheFirstIsLookedAt: "what a node cannot run stands in its way";
    CancelOpensNothing: "a request to cancel does not open an instance without code";
    CancelOpensAtOnce: "a request to cancel opens an instance before its time";
    TerminationWaits: "a request to terminate does not open an instance at once";
    IgnoresActivityNames: "an activity goes to a node without its code";
    IgnoresMessageBound: "a claim takes all messages it may, not those it was asked for";
    ClaimsWithoutEnd: "a claim takes instance after instance, however much they bring";
    IgnoresSessionBound: "a claim takes all sessions it finds";
    StampsAtOnce: "what is to be claimed at once gets a time stamp";
    UnreadableResultIsLost: "no operation fails for a result that cannot be read";
    DropsEarlyQueueMessages: "a queue message that arrives before its start is dropped";
    BulkTakesNewest: "bulk deletion with a limit takes the newest";
    ReadyWorkNewestFirst: "ready work is listed newest first";
    ReadyWorkUncounted: "ready work is not counted";
    PendingForgetsLeases: "work under a lease is told as if nobody had it";
    PendingTellsOneMessage: "of the messages of an instance only the first is told";
    EarlyUnleased: "a turn handed out early holds no lease";
    EarlyUncounted: "an early turn may act before its attempt is on record";
    BatchTooLarge: "a batch holds one more than asked for";
    ForgetsDeadLetters: "dead-lettered messages are gone";
    RequeueIgnoresLives: "a dead letter goes to whoever has the id now";
    PauseIsOnlyTold: "a pause is recorded, and nothing waits";
    ResumeIsOnlyTold: "a resumed instance is still held back";
    QueryForgetsPauses: "a query does not tell who is paused";
    QueryForgetsWaits: "a query takes no notice of what instances wait for";
    WaitsHaveNoKind: "a query looks only at the name of what instances wait for";
    AnsweredWaitsAreOpen: "an instance waits for whatever it once asked for";
    WaitsEndWithAPage: "the instances beyond the first page do not wait";
    QueryForgetsBlocks: "a query takes no notice of who is blocked";
    BlockOutlivesTheTurn: "an instance that went on is still blocked";
    BlockOutlivesTheInstance: "a later life of an id is blocked like an earlier one";
    BlockNeedsNoLease: "who lost the lease notes that the instance is blocked";
    BlockIsOnlyTold: "a note about a blocked instance is acknowledged and not kept";
    BlockKeepsTheFirst: "the first note about a blocked instance stays";
    ListsTellAnotherLife: "a list tells a life that no claim tells";
    MessagesReachAnyLife: "a message for one life of an id goes to whoever has it";
    GoneLivesTakeMessages: "a message for a life that is gone waits for the next one";
    PausesReachAnyLife: "who pauses one life of an id pauses another one";
    EndsTakeNoMessages: "what has ended takes nothing, not even what is about its end";
    FailedChangesAreBuiltOn: "the next execution begins with what a failed one changed";
    RewoundStaysAsItFailed: "a rewound instance keeps the status and labels of the dropped part";
    RewoundIsAnybodys: "a rewound execution is handed to nodes of any version";
    HeartbeatsEndWithARewind: "what a failed execution said is gone once another one goes on";
    FailureIsFinal: "an instance that failed does not run again, whatever is committed";
    MemosAreForgotten: "the memo of a start is not kept";
    MemosAreCut: "a memo is kept up to 256 bytes";
    MemosOutliveTheInstance: "a later life of an id has the memo of an earlier one";
    StartsScheduleNothing: "the timer of a first event is dropped, because a start schedules nothing";
    LabelsEndWithTheirTurn: "labels that an execution begins with are not kept";
    LabelsOutliveTheInstance: "a later life of an id has the labels of an earlier one";
    LabelsAreOnlyTold: "an operator's change of labels is acknowledged and not made";
    LabelsChangeOneByOne: "of a change with too many labels as many are made as fit";
    OperatorsLabelsAreForgotten: "the next execution takes an operator's change of labels back";
    LabelsAreKeyValues: "labels are among the key-values";
    QueryForgetsLabels: "a query takes no notice of labels";
    QueryLooksAtOneLabel: "a query looks at the first label only";
    LabelsOfAllAreCounted: "labels are counted whatever the query";
    NodesAreNeverGone: "a node that went silent counts as up";
    GoneNodesStay: "a node that was gone for long is still listed";
    NodesNeverLeave: "a node that shut down is still listed";
    NodesHaveNoCode: "a node is listed without its code";
    DutiesHaveManyHolders: "a duty is given to everybody who asks";
    DutiesLastForEver: "a duty of a silent holder is never given to another";
    DutiesAreNotGivenBack: "a duty that was given back is not free";
    RequeueKeepsTheDeadLetter: "a dead letter that went back into its queue stays";
    DeadLetteringDoesNothing: "dead-lettered messages stay in the queue";
    OutcomeWithoutReason: "the outcome of a failed instance does not tell why";
    EveryPageIsTheFirst: "a query takes no notice of its cursor";
    PagesLoseTies: "a page begins after everything that was created within the same second";
    PagesOverlap: "a page begins with the last instance of the one before";
    AlwaysMore: "the last page leads to another one";
    QueriesAreUnsorted: "a query answers newest first, whatever it was asked";
    PrefixIsAPattern: "an underscore in an id prefix stands for any character";
    OnlyTheFirstStatus: "of several statuses only the first is admitted";
    RootsHaveNoDescendants: "a family is taken for its root and its children";
    RangesAreClosed: "the end of a range belongs to it";
    NothingEndsInQueries: "a summary does not tell when an instance ended";
    CountsThePage: "a count ends with the page";
    CountsUnordered: "groups are counted smallest first";
    NoLeaseIsLost: "no activity lease is ever reported as lost";
    TimersIgnoreStepBack: "after the clock is set back a timer fires if its time was once reached";
    LeaseOutlivesStepBack: "after the clock is set back a lease lasts until the clock shows its end";
    OldestLeadWins: "an older start takes the place of a continue-as-new";
    HoldIsOnlyTold: "a commit that holds queue messages back is acknowledged, and they come";
    HoldNeverEnds: "queue messages that were held back once are held back for ever";
    HoldStopsAll: "an instance that holds queue messages back gets nothing else either";
    HoldOutlivesTheInstance: "a later life of an id holds back what an earlier one did";
    HoldNeedsNoLease: "who lost the lease holds queue messages back";
    HoldTurnsTheOrder: "queue messages that were held back come newest first";
    HoldForgetsTheTurn: "a commit that holds queue messages back stores no activities";
    QueueMessagesAreUnbounded: "a claim takes more queue messages than the contract says";
    CarriedQueueGrows: "queue messages come with a continue-as-new that carries unread ones";
    EarlyMessagesStall: "early messages that one claim does not take stay behind";
    UnreadableStartIsLost: "no parent hears of a child whose start cannot be read";
    LimitCountsChildren: "the limit of a bulk deletion counts the children of a root too";
    ConfirmsByCount: "a history in the caller's memory is confirmed by its length";
    DeadLetteringErrsOtherwise: "who lost the lease cannot dead-letter, and gets another error";
    DeadLettersTheNext: "a wrong position dead-letters another message";
    DeletionLeavesMessages: "a deletion takes the history first, and the messages of the instance stay";
    DeletionTakesMessagesFirst: "a deletion takes the messages first, and is refused because the instance runs";
    DeletionLeavesValues: "the key-values of a deleted instance stay";
    ChildrenOutliveParents: "the children of a deleted instance are still listed";
    RenewalKeepsLength: "a renewal lasts as long as the first lease, whatever it asks for";
    SecondCommitEnqueues: "a second commit with the same token is refused, and its activities run";
    StrangersForgive: "who lost a lease cannot give it back, and yet an attempt is forgiven";
    CutsAtNul: "texts of activities end at a NUL character";
    TokenIsAPattern: "a token is looked for as a pattern";
    VersionFromEvent: "the version of an instance is taken from its start event";
    ClaimsTwice: "two claimers that meet get the same instance";
    KvClearsForgotten: "a key that an earlier execution cleared is in the snapshot";
    Oversleeps: "two of three fetches wait for twice the time they may";
    WatchForgetsDeletion: "a watch calls a deleted instance running";
    ClaimIsToldLate: "an activity counts as claimed only when it is done";
    WorkerQueueTakesAll: "a message on the worker queue that is no activity is dropped in silence";
    TreeIsUnordered: "a tree lists children before their parents";
    WideCommitIsCut: "a commit schedules no more than a hundred activities";
    SnapshotForgetsMessages: "a snapshot has no messages";
    SnapshotForgetsActivities: "a snapshot has no activities";
    SnapshotForgetsDeadLetters: "a snapshot has no dead letters";
    SnapshotForgetsHeartbeats: "a snapshot does not tell what activities said last";
    SnapshotForgetsChanges: "a snapshot has only the key-values of executions that ended";
    SnapshotIsOfTheCurrentExecution: "a snapshot has the current execution only";
    SnapshotForgetsLabels: "a snapshot has no labels";
    SnapshotForgetsThePause: "a snapshot does not tell that the instance is paused";
    SnapshotForgetsSenders: "a snapshot does not tell which life asked for a child";
    HeldForgetsQueues: "ids that only have messages are not listed";
    RestoreIgnoresTimes: "what is restored can be claimed at once, due or not";
    RestoreForgetsAttempts: "attempts begin anew in the other store";
    RestoreReversesMessages: "messages are restored newest first";
    RestoreDrawsLives: "a restored instance is another life than the one its children know";
    RestoreDropsWhatContradicts: "what contradicts itself in a snapshot is left out, and the rest restored";
    RestoreOverwrites: "a restore replaces the instance that is there";
    RestoreInTwoSteps: "a restore writes the instance first and its queues later";
    RestoreCutsHistories: "a restore keeps the first thousand events of an execution";
    SubmitLooksFirst: "a submission looks what has the id, and writes after that";
    SubmitForgetsQueuedStarts: "a start that is queued does not count as there";
    SubmitMessagesApart: "the messages of a start are stored after it";
    SubmitReplacesApart: "an instance that is replaced is deleted first, and its successor stored after that";
    SubmitReplacesByForce: "an instance is replaced though its descendants run";
    SubmitReversesMessages: "the messages of a start come newest first";
    SubmitIgnoresDelay: "a start that is submitted with a delay begins at once";
    SubmitStoresRefused: "the messages of a start that is refused are stored";
    SubmitStartsTwice: "a start that uses what is there is stored beside it";
    SubmitFeedsTheDead: "a message to an instance that has ended is stored";
    SubmitDropsStrays: "items of a submission that do not belong to it are silently skipped";
    SubmitForgetsWhoAsked: "a start that is repeated is refused because of itself";
    SubmitTakesAnyForItsOwn: "whoever has the id is taken for what the request asked for before";
    ClosingIsOnlyTold: "a closed store says so, and goes on";
    ClosedStoreGivesDuties: "a closed store still gives duties";
    ClosedForGood: "a store that was opened again stays closed";
    ClosingKeepsTheFirstReason: "why a store is closed cannot be changed";
    ClosingDoesNotCompare: "who closes a store replaces whatever reason is there";
    RestoreDoesNotCompare: "a restore goes into a store that is closed for something else";
    ClosedStoreTakesBack: "a closed store takes turns back, with their attempts";
    ClosedStoreListens: "a closed store keeps what activities say";
    ClosedStoreIsLabelled: "labels of a closed store can be changed";
    ClosedStoreDeletes: "a closed store deletes instances";
    ClosedStoreIsSilent: "a claim that finds nothing in a closed store is not refused";
    FamilyIsReadOneByOne: "each member of a family is read at its own moment";
    FamilyForgetsTheUnborn: "a family has only those that have begun";
    HandlesHaveClocks: "leases and due times are computed by the clock of the machine that asks";
    SkewHasNoSign: "a machine whose clock is behind takes its lag for time that has passed";
    FamilyTellsChildrenFirst: "a family is told children first";
    StrangersAreKnown: "of an instance that nobody started the store answers as if it were there";
    NoHistoryIsAnError: "reading the history of an instance that is not there fails";
    NoWorkIsAnError: "a claim that finds nothing fails";
    FirstTurnHasValues: "an instance begins with a value that nobody set";
    StrangersRenew: "a renewal with a token that nobody got succeeds";
    WorkNeedsItsInstance: "an activity whose instance is not there is dropped";
    SessionsRenewedByNobody: "a renewal counts a session that it did not renew";
    BulkCountsOneMore: "a bulk deletion counts one instance too many";
    DeadLetterBlocksId: "an id with a dead letter takes no start";
}
