//! Two stores written apart from each other do the same, whatever they are asked: the memory store is the model.

use std::time::Duration;

use duroxide_core::clock::Clock as _;
use duroxide_store::memory::MemoryStore;
use duroxide_store::redb::{Durability, RedbOptions, RedbStore, Tuning};
use duroxide_store::{
    After, Answer, Batch, Claim, Claimed, EventStore, Followers, Guard, Labels, LeaseToken,
    ManualClock, NewMessage, Operation, Owner, Query, Queue, Record, Role, StoreError, Visible,
};
use proptest::prelude::*;
use proptest::sample::select;

const LETTERS: Queue = Queue::grouped("letters");
const PARCELS: Queue = Queue::single("parcels");

/// One step; leases are named by the order in which they were claimed.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    SetBack(u64),
    Claim {
        grouped: bool,
        max: usize,
        lease_ms: u64,
        labels: u8,
        kinds: u8,
        any_kind_after_ms: Option<u64>,
        bounds: (usize, usize),
        owner: Option<(&'static str, usize)>,
        guard: Option<Guard>,
    },
    Commit {
        condition: Option<Condition>,
        writes: Vec<Write>,
    },
    /// The file is closed and opened again.
    Reopen,
}

/// What a batch relies on.
#[derive(Debug, Clone)]
enum Condition {
    Lease(usize),
    Undisturbed(usize),
    Plain(Guard),
}

#[derive(Debug, Clone)]
enum Write {
    Plain(Operation),
    Complete(usize),
    Renew(usize, u64),
    Release(usize, After, bool),
}

fn text(choices: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(choices).prop_map(str::to_owned)
}

fn maybe(choices: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(text(choices))
}

fn message() -> impl Strategy<Value = NewMessage> {
    let visible = prop_oneof![
        3 => Just(Visible::Now),
        1 => (0..3_000_u64).prop_map(Visible::AfterMs),
        1 => (0..13_000_u64).prop_map(Visible::At),
    ];
    (
        text(&["a", "b", "ab"]),
        maybe(&["k", "l"]),
        maybe(&["x", "y"]),
        maybe(&["red", "blue", ""]),
        maybe(&["red", "blue", ""]),
        select(vec![
            Role::Plain,
            Role::Plain,
            Role::Lead,
            Role::Successor(Followers::Come),
            Role::Successor(Followers::Stay),
            Role::Follower,
            Role::Follower,
            Role::Alarm,
            Role::UrgentAlarm,
        ]),
        visible,
    )
        .prop_map(
            |(group, key, affinity, label, kind, role, visible)| NewMessage {
                key,
                affinity,
                label,
                kind,
                role,
                stamp: Some(7),
                visible,
                ..NewMessage::new(group, "payload")
            },
        )
}

fn queue() -> impl Strategy<Value = Queue> {
    select(vec![LETTERS, PARCELS])
}

fn plain() -> impl Strategy<Value = Operation> {
    let group = || text(&["a", "b", "ab"]);
    let scope = || text(&["s", "ss", ""]);
    let entity = group;
    prop_oneof![
        8 => (queue(), message()).prop_map(|(queue, message)| Operation::Enqueue { queue, message }),
        2 => (queue(), proptest::collection::vec(1..40_u64, 0..3))
            .prop_map(|(queue, ids)| Operation::DeleteMessages { queue, ids }),
        2 => proptest::collection::vec(1..40_u64, 0..3)
            .prop_map(|ids| Operation::ShowMessages { queue: PARCELS, ids }),
        2 => (queue(), group(), text(&["k", "l"]))
            .prop_map(|(queue, group, key)| Operation::DeleteKeyed { queue, group, key }),
        1 => (queue(), group()).prop_map(|(queue, group)| Operation::DeleteGroup { queue, group }),
        2 => (group(), maybe(&["red", "blue", ""]), maybe(&["red", "blue", ""])).prop_map(
            |(group, label, kind)| Operation::SetLabel { queue: LETTERS, group, label, kind }
        ),
        2 => group().prop_map(|group| Operation::HoldFollowers { queue: LETTERS, group }),
        1 => (1..4_000_u64, 0..3_000_u64).prop_map(|(lease_ms, idle_ms)| {
            let owners = vec!["anna".to_owned(), "bert".to_owned()];
            Operation::RenewAffinities { queue: PARCELS, owners, lease_ms, idle_ms }
        }),
        1 => Just(Operation::SweepAffinities { queue: PARCELS }),
        2 => (scope(), text(&["k", "l"]), any::<u8>()).prop_map(|(scope, key, value)| {
            Operation::Put { scope, key, value: vec![value] }
        }),
        1 => (scope(), text(&["k", "l"])).prop_map(|(scope, key)| Operation::Delete { scope, key }),
        1 => scope().prop_map(|scope| Operation::DeleteScope { scope }),
        3 => (entity(), 1..3_u64, proptest::collection::vec(1..30_u64, 0..3)).prop_map(
            |(entity, partition, numbers)| {
                let record = |number| Record { number, data: vec![1; 3] };
                let events = numbers.into_iter().map(record).collect();
                Operation::Append { entity, partition, events }
            }
        ),
        1 => (entity(), 1..3_u64)
            .prop_map(|(entity, partition)| Operation::DeletePartition { entity, partition }),
        1 => entity().prop_map(|entity| Operation::DeleteEntity { entity }),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let after = prop_oneof![
        Just(After::Now),
        (0..3_000_u64).prop_map(After::DelayMs),
        (0..3_000_u64).prop_map(After::QuietMs),
    ];
    prop_oneof![
        6 => plain().prop_map(Write::Plain),
        2 => (0..40_usize).prop_map(Write::Complete),
        1 => (0..40_usize, 0..3_000_u64).prop_map(|(lease, ms)| Write::Renew(lease, ms)),
        2 => (0..40_usize, after, any::<bool>())
            .prop_map(|(lease, after, forgive)| Write::Release(lease, after, forgive)),
    ]
}

/// A guard on entries, or on the leads of a group.
fn guard() -> impl Strategy<Value = Guard> {
    let place = || (text(&["s", "ss", ""]), text(&["k", "l"]));
    prop_oneof![
        2 => place().prop_map(|(scope, key)| Guard::Absent { scope, key }),
        2 => place().prop_map(|(scope, key)| Guard::Present { scope, key }),
        1 => (place(), any::<u8>()).prop_map(|((scope, key), value)| {
            Guard::Equals { scope, key, value: vec![value % 4] }
        }),
        2 => (text(&["s", "ss", ""]), select(vec![vec![], vec!["k"], vec!["l"], vec!["k", "l"]]))
            .prop_map(|(scope, keys)| {
                let keys = keys.into_iter().map(str::to_owned).collect();
                Guard::Keys { scope, keys }
            }),
        1 => (text(&["a", "b", "ab"]), any::<bool>()).prop_map(|(group, is_there)| {
            Guard::Lead { queue: LETTERS, group, is_there }
        }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        2 => (0..40_usize).prop_map(Condition::Lease),
        1 => (0..40_usize).prop_map(Condition::Undisturbed),
        3 => guard().prop_map(Condition::Plain),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2_000_u64).prop_map(Step::Pass),
        1 => (0..2_000_u64).prop_map(Step::SetBack),
        4 => (
            any::<bool>(),
            0..4_usize,
            0..4_000_u64,
            (0..16_u8, 0..16_u8),
            proptest::option::of(0..3_000_u64),
            (0..4_usize, 0..30_usize),
            proptest::option::of((select(&["anna", "bert"][..]), 0..3_usize)),
            proptest::option::weighted(0.2, guard()),
        )
            .prop_map(
                |(grouped, max, lease_ms, (labels, kinds), any_kind_after_ms, bounds, owner, guard)| {
                    Step::Claim {
                        grouped, max, lease_ms, labels, kinds, any_kind_after_ms, bounds, owner, guard,
                    }
                }
            ),
        5 => (
            proptest::option::weighted(0.4, condition()),
            proptest::collection::vec(write(), 1..4),
        )
            .prop_map(|(condition, writes)| Step::Commit { condition, writes }),
        1 => Just(Step::Reopen),
    ]
}

/// One store and the leases it handed out, in order.
struct Side<S> {
    /// Empty only while it is closed.
    store: Option<S>,
    leases: Vec<LeaseToken>,
}

impl<S: EventStore> Side<S> {
    fn store(&self) -> &S {
        self.store.as_ref().unwrap()
    }

    fn is_set_back(&self) -> bool {
        self.store().clock_ms() < self.store().now_ms()
    }

    fn lease(&self, index: usize) -> LeaseToken {
        match self.leases.len() {
            0 => LeaseToken::new("none yet"),
            count => self.leases[index % count].clone(),
        }
    }

    async fn claim(&mut self, claim: Claim) -> Result<Vec<Claimed>, &'static str> {
        let mut claimed = self
            .store()
            .claim(claim)
            .await
            .map_err(|error| match error {
                StoreError::Conflict(_) => "conflict",
                _ => "another error",
            })?;
        for one in &mut claimed {
            let name = LeaseToken::new(format!("lease {}", self.leases.len()));
            self.leases.push(std::mem::replace(&mut one.token, name));
        }
        Ok(claimed)
    }

    fn guard(&self, condition: &Condition) -> Guard {
        match condition {
            Condition::Lease(lease) => Guard::Lease(self.lease(*lease)),
            Condition::Undisturbed(lease) => Guard::Undisturbed(self.lease(*lease)),
            Condition::Plain(guard) => guard.clone(),
        }
    }

    async fn commit(
        &self,
        condition: Option<&Condition>,
        writes: &[Write],
    ) -> Result<Vec<u64>, String> {
        let operations = writes.iter().map(|write| match write {
            Write::Plain(operation) => operation.clone(),
            Write::Complete(lease) => Operation::Complete {
                lease: self.lease(*lease),
            },
            Write::Renew(lease, lease_ms) => Operation::Renew {
                lease: self.lease(*lease),
                lease_ms: *lease_ms,
            },
            Write::Release(lease, after, forgive) => Operation::Release {
                lease: self.lease(*lease),
                after: *after,
                forgive: *forgive,
            },
        });
        let mut batch = Batch::of(operations);
        batch
            .guards
            .extend(condition.map(|condition| self.guard(condition)));
        self.store()
            .commit(batch)
            .await
            .map_err(|error| match error {
                StoreError::LeaseLost(_) => "lease lost".to_owned(),
                StoreError::Conflict(_) => "conflict".to_owned(),
                other => format!("{other:?}"),
            })
    }

    async fn everything(&self) -> Vec<Answer> {
        let mut queries = vec![Query::EventCount];
        for queue in [LETTERS, PARCELS] {
            queries.push(Query::Depths {
                queue: queue.clone(),
            });
            queries.push(Query::Backlog {
                queue: queue.clone(),
                limit: 100,
                count_max: 100,
            });
            queries.push(Query::MessagesById {
                queue: queue.clone(),
                ids: vec![3, 1, 99],
            });
            queries.push(Query::MessagesByKey {
                queue: queue.clone(),
                group: "a".into(),
                key: "k".into(),
            });
            queries.push(Query::Messages {
                queue: queue.clone(),
                group: None,
                after: 0,
                limit: usize::MAX,
            });
            queries.push(Query::Messages {
                queue,
                group: Some("a".into()),
                after: 2,
                limit: 3,
            });
        }
        for entity in ["a", "b", "ab"] {
            let entity = entity.to_owned();
            queries.push(Query::Partitions {
                entity: entity.clone(),
            });
            queries.push(Query::Partition {
                entity: entity.clone(),
                partition: 1,
            });
            queries.push(Query::Events {
                entity,
                partition: 1,
                from: 3,
                limit: 5,
            });
        }
        queries.extend(["s", "ss", ""].map(Query::all_entries));
        queries.push(Query::Count { scope: "s".into() });
        queries.extend(self.leases.iter().map(|token| Query::Lease {
            token: token.clone(),
        }));
        self.store().query(queries).await.unwrap()
    }
}

/// Labels by bits: none, red, empty, those from "a" to "c".
fn accepted(bits: u8) -> Labels {
    let named = [(2, "red"), (4, "")];
    let named = named.iter().filter(|(bit, _)| bits & bit != 0);
    let mut labels = Labels::of(named.map(|(_, label)| *label));
    if bits & 1 != 0 {
        labels = labels.or_none();
    }
    if bits & 8 != 0 {
        labels = labels.or_within("a", "c");
    }
    labels
}

async fn compare(steps: Vec<Step>) {
    let clock = ManualClock::at(10_000);
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = RedbOptions {
            durability: Durability::Relaxed,
            clock: (&clock).into(),
            // What is deleted stays in the file for a while, where nobody sees it.
            tuning: Tuning { step: 1 },
            ..RedbOptions::default()
        };
        RedbStore::open_with(folder.path().join("store.redb"), options).unwrap()
    };
    let mut model = Side {
        store: Some(MemoryStore::with_clock(&clock)),
        leases: Vec::new(),
    };
    let mut other = Side {
        store: Some(open()),
        leases: Vec::new(),
    };
    for step in steps {
        match &step {
            Step::Pass(ms) => clock.advance(Duration::from_millis(*ms)),
            Step::SetBack(ms) => clock.set(clock.now_ms().saturating_sub(*ms)),
            Step::Claim {
                grouped,
                max,
                lease_ms,
                labels,
                kinds,
                any_kind_after_ms,
                bounds,
                owner,
                guard,
            } => {
                let claim = Claim {
                    max: *max,
                    labels: accepted(*labels),
                    kinds: accepted(*kinds),
                    any_kind_after_ms: *any_kind_after_ms,
                    messages_max: bounds.0,
                    bytes_max: bounds.1,
                    followers_max: bounds.1 / 7,
                    messages_in_all_max: bounds.0.saturating_mul(2),
                    bytes_in_all_max: bounds.1.saturating_mul(2),
                    owner: owner.map(|(id, new_keys_max)| Owner {
                        id: id.to_owned(),
                        lease_ms: 1_500,
                        new_keys_max,
                    }),
                    attach: Some("s".to_owned()),
                    guards: guard.iter().cloned().collect(),
                    ..Claim::one(if *grouped { LETTERS } else { PARCELS }, *lease_ms)
                };
                let expected = model.claim(claim.clone()).await;
                assert_eq!(other.claim(claim).await, expected, "{step:?}");
            }
            Step::Commit { condition, writes } => {
                let condition = condition.as_ref();
                let expected = model.commit(condition, writes).await;
                assert_eq!(other.commit(condition, writes).await, expected, "{step:?}");
            }
            // A store that was closed while the clock was behind goes on from what it had stored, the model from what
            // it saw.
            Step::Reopen if model.is_set_back() => {}
            Step::Reopen => {
                drop(other.store.take());
                other.store = Some(open());
            }
        }
        assert_eq!(
            other.everything().await,
            model.everything().await,
            "after {step:?}"
        );
    }
}

proptest! {
    // Half of the usual number, because each case makes a file; PROPTEST_CASES scales it.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn redb_does_what_the_model_does(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(compare(steps));
    }
}
