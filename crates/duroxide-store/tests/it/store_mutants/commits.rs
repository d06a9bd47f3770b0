//! Flaws of batches.

use duroxide_store::{
    After, AtomicOps as _, Batch, Followers, Guard, NewMessage, Operation, Query, Role, StoreError,
    Visible,
};

use super::Mutant;
use super::flaws::Flaw;

impl Mutant {
    pub(super) async fn flawed_commit(&self, mut batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.note(&batch);
        batch.guards.retain(|guard| !self.is_overlooked(guard));
        self.spoil_topics(&mut batch);
        let operations = std::mem::take(&mut batch.operations);
        for operation in operations {
            let spoilt = self.spoilt(operation).await?;
            batch.operations.push(spoilt);
        }
        let mut counts = match self.flaw {
            Flaw::GuardsBeforehand => self.commit_unguarded(batch).await?,
            Flaw::OneByOne => self.commit_one_by_one(batch).await?,
            Flaw::LastFirst => {
                batch.operations.reverse();
                let mut counts = self.inner.commit(batch).await?;
                counts.reverse();
                counts
            }
            Flaw::AnswersApart => {
                tokio::task::yield_now().await;
                self.inner.commit(batch).await?
            }
            Flaw::RenewalRevives | Flaw::CompletionOfTheLost | Flaw::ReleaseOfTheLost => {
                self.commit_forgiving(batch).await?
            }
            _ => self.inner.commit(batch).await?,
        };
        if self.has(Flaw::CountsNothing) {
            counts.fill(0);
        }
        Ok(counts)
    }

    fn note(&self, batch: &Batch) {
        let mut notes = self.notes();
        for operation in &batch.operations {
            match operation {
                Operation::Put { scope, .. } => drop(notes.scopes.insert(scope.clone())),
                Operation::Append { entity, .. } => drop(notes.entities.insert(entity.clone())),
                Operation::Enqueue { message, .. } => {
                    notes.groups.insert(message.group.clone());
                }
                _ => {}
            }
        }
    }

    fn is_overlooked(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Lease(_) => self.has(Flaw::LeaseGuardsIgnored),
            Guard::Undisturbed(_) => self.has(Flaw::DisturbanceIgnored),
            Guard::Lead { .. } => self.has(Flaw::LeadGuardsIgnored),
            _ => self.has(Flaw::EntryGuardsIgnored),
        }
    }

    fn spoil_topics(&self, batch: &mut Batch) {
        match self.flaw {
            Flaw::TopicsLost => batch.topics.clear(),
            Flaw::TopicsMixed if !batch.topics.is_empty() => batch.topics.push("news".to_owned()),
            _ => {}
        }
    }

    async fn spoilt(&self, operation: Operation) -> Result<Operation, StoreError> {
        Ok(match operation {
            Operation::Enqueue {
                mut queue,
                mut message,
            } => {
                self.split(&mut queue);
                self.spoil_message(&mut message);
                Operation::Enqueue { queue, message }
            }
            Operation::Release {
                lease,
                after,
                forgive,
            } => Operation::Release {
                lease,
                after: self.spoilt_rest(after),
                forgive: match self.flaw {
                    Flaw::NeverForgives => false,
                    Flaw::AlwaysForgives => true,
                    _ => forgive,
                },
            },
            Operation::Renew { lease, .. } if self.has(Flaw::RenewalOfOneLength) => {
                let lease_ms = 2_000;
                Operation::Renew { lease, lease_ms }
            }
            Operation::Put { scope, key, value } if self.has(Flaw::NulCut) => Operation::Put {
                scope: cut(&scope),
                key: cut(&key),
                value,
            },
            Operation::Append {
                entity,
                partition,
                events,
            } if self.has(Flaw::NumbersSkipped) => {
                self.append_what_is_new(entity, partition, events).await?
            }
            other => self.spoilt_deletion(other).await?,
        })
    }

    fn spoil_message(&self, message: &mut NewMessage) {
        match self.flaw {
            Flaw::DelaysIgnored => message.visible = Visible::Now,
            Flaw::LabelsLost => message.label = None,
            Flaw::KindsLost => message.kind = None,
            Flaw::RolesLost => message.role = Role::Plain,
            Flaw::KeysLost => message.key = None,
            Flaw::AffinitiesLost => message.affinity = None,
            Flaw::FollowersAlwaysCome if matches!(message.role, Role::Successor(_)) => {
                message.role = Role::Successor(Followers::Come);
            }
            Flaw::UrgentIsNotUrgent if message.role == Role::UrgentAlarm => {
                message.role = Role::Alarm;
            }
            Flaw::StepBackMakesEarly if self.is_set_back() => message.visible = Visible::Now,
            _ => {}
        }
    }

    fn spoilt_rest(&self, after: After) -> After {
        match (self.flaw, after) {
            (Flaw::ReleaseAtOnce, After::DelayMs(_)) | (Flaw::RestIsNoRest, After::QuietMs(_)) => {
                After::Now
            }
            (Flaw::RestIsDeaf, After::QuietMs(ms)) => After::DelayMs(ms),
            (_, after) => after,
        }
    }

    async fn append_what_is_new(
        &self,
        entity: String,
        partition: u64,
        mut events: Vec<duroxide_store::Record>,
    ) -> Result<Operation, StoreError> {
        let known = Query::Events {
            entity: entity.clone(),
            partition,
            from: 0,
            limit: usize::MAX,
        };
        let known = self.inner.query_one(known).await?.into_events()?;
        let mut numbers: Vec<u64> = known.iter().map(|event| event.number).collect();
        events.retain(|event| {
            let is_new = !numbers.contains(&event.number);
            numbers.push(event.number);
            is_new
        });
        Ok(Operation::Append {
            entity,
            partition,
            events,
        })
    }

    async fn spoilt_deletion(&self, operation: Operation) -> Result<Operation, StoreError> {
        // Something that changes nothing and counts none.
        let nothing = || Operation::DeleteScope {
            scope: "a scope that nobody uses".to_owned(),
        };
        let also = |known: &std::collections::BTreeSet<String>, name: &str| -> Vec<String> {
            let alike = known
                .iter()
                .filter(|other| other.starts_with(name) && *other != name);
            alike.cloned().collect()
        };
        Ok(match (self.flaw, operation) {
            (Flaw::ScopesByPrefix, Operation::DeleteScope { scope }) => {
                let alike = also(&self.notes().scopes, &scope);
                let more = alike
                    .into_iter()
                    .map(|scope| Operation::DeleteScope { scope });
                self.inner.commit(Batch::of(more)).await?;
                Operation::DeleteScope { scope }
            }
            (Flaw::EntitiesByPrefix, Operation::DeleteEntity { entity }) => {
                let alike = also(&self.notes().entities, &entity);
                let more = alike
                    .into_iter()
                    .map(|entity| Operation::DeleteEntity { entity });
                self.inner.commit(Batch::of(more)).await?;
                Operation::DeleteEntity { entity }
            }
            (Flaw::GroupsByPrefix, Operation::DeleteGroup { queue, group }) => {
                let alike = also(&self.notes().groups, &group);
                let more = alike.into_iter().map(|group| Operation::DeleteGroup {
                    queue: queue.clone(),
                    group,
                });
                self.inner.commit(Batch::of(more)).await?;
                Operation::DeleteGroup { queue, group }
            }
            (Flaw::DeletedGroupIsRemembered, Operation::DeleteGroup { queue, group }) => {
                let all = Query::Messages {
                    queue: queue.clone(),
                    group: Some(group),
                    after: 0,
                    limit: usize::MAX,
                };
                let all = self.inner.query_one(all).await?.into_messages()?;
                let ids = all.iter().map(|message| message.id).collect();
                Operation::DeleteMessages { queue, ids }
            }
            (Flaw::KeyedTakesTheGroup, Operation::DeleteKeyed { queue, group, .. }) => {
                Operation::DeleteGroup { queue, group }
            }
            (
                Flaw::GroupLabelsLost,
                Operation::SetLabel {
                    queue, group, kind, ..
                },
            ) => Operation::SetLabel {
                queue,
                group,
                label: None,
                kind,
            },
            (
                Flaw::GroupKindsLost,
                Operation::SetLabel {
                    queue,
                    group,
                    label,
                    ..
                },
            ) => Operation::SetLabel {
                queue,
                group,
                label,
                kind: None,
            },
            (Flaw::NothingHeldBack, Operation::HoldFollowers { .. })
            | (Flaw::NothingShown, Operation::ShowMessages { .. })
            | (Flaw::KeysNeverRenewed, Operation::RenewAffinities { .. })
            | (Flaw::KeysNeverSwept, Operation::SweepAffinities { .. }) => nothing(),
            (
                Flaw::IdleKeysRenewed,
                Operation::RenewAffinities {
                    queue,
                    owners,
                    lease_ms,
                    ..
                },
            ) => Operation::RenewAffinities {
                queue,
                owners,
                lease_ms,
                idle_ms: super::claims::FOR_EVER_MS,
            },
            (_, other) => other,
        })
    }

    async fn commit_unguarded(&self, mut batch: Batch) -> Result<Vec<u64>, StoreError> {
        let guards = std::mem::take(&mut batch.guards);
        let look = Batch {
            guards,
            ..Batch::default()
        };
        self.inner.commit(look).await?;
        tokio::task::yield_now().await;
        self.inner.commit(batch).await
    }

    async fn commit_one_by_one(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        let Batch {
            guards,
            operations,
            topics,
        } = batch;
        let look = Batch {
            guards,
            topics,
            ..Batch::default()
        };
        self.inner.commit(look).await?;
        let mut counts = Vec::new();
        for operation in operations {
            counts.extend(self.inner.commit(Batch::of([operation])).await?);
        }
        Ok(counts)
    }

    /// Says of one operation on a lost lease that it was done.
    async fn commit_forgiving(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        let is_meant = match &batch.operations[..] {
            [Operation::Renew { .. }] => self.has(Flaw::RenewalRevives),
            [Operation::Complete { .. }] => self.has(Flaw::CompletionOfTheLost),
            [Operation::Release { .. }] => self.has(Flaw::ReleaseOfTheLost),
            _ => false,
        };
        match self.inner.commit(batch).await {
            Err(StoreError::LeaseLost(_)) if is_meant => Ok(vec![1]),
            answer => answer,
        }
    }
}

fn cut(text: &str) -> String {
    text.split('\0').next().unwrap_or_default().to_owned()
}
