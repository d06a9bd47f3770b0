//! Flaws of answers.

use duroxide_store::{Answer, AtomicOps as _, EventLog as _, Query, StoreError};

use super::Mutant;
use super::flaws::Flaw;

impl Mutant {
    pub(super) async fn flawed_query(
        &self,
        queries: Vec<Query>,
    ) -> Result<Vec<Answer>, StoreError> {
        if self.has(Flaw::AnswersApart) {
            let mut answers = Vec::new();
            for query in queries {
                answers.push(self.inner.query_one(query).await?);
                // The time is virtual: whoever writes meanwhile comes first.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            return Ok(answers);
        }
        let asked: Vec<Query> = queries.into_iter().map(|query| self.bent(query)).collect();
        let mut answers = self.inner.query(asked.clone()).await?;
        for (query, answer) in asked.iter().zip(&mut answers) {
            self.spoil_answer(query, answer).await?;
        }
        Ok(answers)
    }

    fn bent(&self, mut query: Query) -> Query {
        match (&mut query, self.flaw) {
            (
                Query::Events { limit, .. }
                | Query::Entries { limit, .. }
                | Query::Messages { limit, .. },
                Flaw::LimitsIgnored,
            ) => *limit = usize::MAX,
            (Query::Events { from, .. }, Flaw::PagesFromTheStart) => *from = 0,
            (Query::Messages { after, .. }, Flaw::PagesFromTheStart) => *after = 0,
            (Query::Entries { after, .. }, Flaw::PagesFromTheStart) => *after = None,
            (Query::Entry { scope, key }, Flaw::NulCut) => {
                scope.truncate(scope.find('\0').unwrap_or(scope.len()));
                key.truncate(key.find('\0').unwrap_or(key.len()));
            }
            (Query::Entries { scope, .. }, Flaw::NulCut) => {
                scope.truncate(scope.find('\0').unwrap_or(scope.len()));
            }
            _ => {}
        }
        query
    }

    async fn spoil_answer(&self, query: &Query, answer: &mut Answer) -> Result<(), StoreError> {
        match (self.flaw, answer) {
            (Flaw::EventsReversed, Answer::Events(events)) => events.reverse(),
            (Flaw::EntriesReversed, Answer::Entries(entries)) => entries.reverse(),
            (Flaw::LeasesUntold, Answer::Leases(leases)) => leases.clear(),
            (Flaw::LeaseUnknown, Answer::Lease(lease)) => *lease = None,
            (Flaw::LapsedLeasesTold, Answer::Leases(leases)) => {
                if let (Query::Leases { group, .. }, true) = (query, leases.is_empty()) {
                    let token = self.notes().tokens.get(group).cloned();
                    if let Some(token) = token {
                        let lapsed = self.inner.query_one(Query::Lease { token }).await?;
                        leases.extend(lapsed.into_lease()?);
                    }
                }
            }
            (Flaw::BacklogNewestFirst, Answer::Backlog(backlog)) => backlog.reverse(),
            (Flaw::DepthsWithoutLeases, Answer::Depths(depths)) => {
                depths.iter_mut().for_each(|depth| depth.leased = 0);
            }
            (Flaw::CharactersCounted, Answer::Partition(info)) => {
                if let Query::Partition { entity, partition } = query {
                    let events = self.inner.events(entity, *partition, 0).await?;
                    let texts = events.iter().map(|e| String::from_utf8_lossy(&e.data));
                    info.bytes = texts.map(|text| text.chars().count() as u64).sum();
                }
            }
            (Flaw::PartitionsAsText, Answer::Partitions(partitions)) => {
                partitions.sort_by_key(u64::to_string);
            }
            _ => {}
        }
        Ok(())
    }
}
