//! One verb for every instance that a query admits. In: a query and a [`Verb`]. Out: what became of each instance, one
//! after the other. The store is read in pages and never as a whole, and a verb reaches the life of an id that the
//! query saw, and no later one.

mod act;
mod verb;

use std::collections::VecDeque;

use duroxide_core::provider::{
    CountBy, InstanceQuery, InstanceSummary, Listed, PageCursor, PagePosition, SortKey, SortOrder,
};

use super::{Client, ClientError};
use crate::failures::Failures;
pub use verb::Verb;

/// How many instances are read at once.
const PAGE: u32 = 200;

/// What became of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Applied {
    /// The store has taken the verb; in a dry run, it would be given to the store. `count` is 1, or the number of dead
    /// letters.
    Reached {
        /// How many there were.
        count: u64,
    },
    /// There was nothing to do any more: it ended or was deleted meanwhile, is another life, or someone else was first.
    Unchanged,
    /// It was refused. The others go on.
    Refused {
        /// How many were reached all the same: of several dead letters, some may go back.
        count: u64,
        /// The reason in words.
        why: String,
    },
}

/// How many instances were looked at so far, and what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// All that were looked at.
    pub seen: u64,
    /// Those that were reached.
    pub reached: u64,
    /// Those with which there was nothing to do any more.
    pub unchanged: u64,
    /// Those that were refused.
    pub refused: u64,
}

/// A verb on its way through the instances that a query admits; see [`Client::apply`].
#[derive(Debug)]
pub struct Applying<'c> {
    client: &'c Client,
    verb: Verb,
    is_dry: bool,
    /// The query of the next page; `None` after the last one.
    next: Option<InstanceQuery>,
    /// What is left of the page that was read last.
    page: VecDeque<InstanceSummary>,
    /// The place of the last instance that is done with.
    done: Option<PageCursor>,
    progress: Progress,
    failures: Failures,
}

impl Client {
    /// Does one thing to every instance that a query admits, one after the other, as [`Applying::next`] is called.
    ///
    /// - It works in pages, newest instances first, and never holds more than one page; the order, page size and cursor
    ///   of the query are its own affair, but a cursor that [`Applying::cursor`] gave goes on behind it.
    /// - Each verb adds what it needs to the query: `Pause` reaches what runs and is not paused, `Retry` what failed.
    ///   So the same call, made again after it was cut short, goes on with what is left.
    /// - A verb reaches the life of an id that the query saw. If the instance was deleted and its id used again since,
    ///   nothing happens to the later one; stores judge that in the transaction that writes. (A store that cannot tell
    ///   lives apart is asked just before whether the id still has the time of creation that the query saw.)
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    /// use duroxide::client::Verb;
    /// use duroxide::providers::InstanceQuery;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let orders = InstanceQuery::new().with_name("order");
    /// let mut pausing = client.apply(&orders, Verb::Pause);
    /// println!("{} instances", pausing.count().await?);
    /// while let Some((order, became)) = pausing.next().await? {
    ///     println!("{}: {became:?}", order.instance_id);
    /// }
    /// assert_eq!(pausing.progress().reached, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply(&self, query: &InstanceQuery, verb: Verb) -> Applying<'_> {
        let narrowed = verb.narrow(query.clone());
        // What the verb itself creates is newer than what is left to do, and is not met.
        let next = narrowed.map(|query| {
            query
                .sorted(SortKey::Created, SortOrder::NewestFirst)
                .with_page_size(PAGE)
        });
        Applying {
            client: self,
            verb,
            is_dry: false,
            next,
            page: VecDeque::new(),
            done: query.after.clone(),
            progress: Progress::default(),
            failures: Failures::default(),
        }
    }
}

impl Applying<'_> {
    /// Only finds out what would be reached; changes nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// How many instances the query admits with what the verb adds to it; for a bar that shows progress. Those that are
    /// done with already are not taken off.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn count(&self) -> Result<u64, ClientError> {
        let Some(query) = &self.next else {
            return Ok(0);
        };
        let counts = self.client.count_instances(query, CountBy::Nothing).await?;
        Ok(counts.iter().map(|one| one.count).sum())
    }

    /// Applies the verb to the next instance; `None` after the last one.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, `InvalidInput` if the verb itself is not valid, or what the store says: that it is out
    /// of reach, for instance. The instance is not done with then: another call begins with it. A store that answers
    /// otherwise, and cannot read or write this instance, refuses it alone.
    pub async fn next(&mut self) -> Result<Option<(InstanceSummary, Applied)>, ClientError> {
        self.verb.check()?;
        while self.page.is_empty() {
            let Some(query) = &self.next else {
                return Ok(None);
            };
            let page = self.client.query_instances(query).await?;
            self.page = page.items.into();
            let query = self.next.take();
            self.next = query.zip(page.next).map(|(query, at)| query.after(at));
        }
        let Some(one) = self.page.front() else {
            return Ok(None);
        };
        let act = self
            .client
            .act(&self.verb, one, self.is_dry, &mut self.failures);
        let became = act.await?;
        let count = match became {
            Applied::Reached { .. } => &mut self.progress.reached,
            Applied::Unchanged => &mut self.progress.unchanged,
            Applied::Refused { .. } => &mut self.progress.refused,
        };
        *count += 1;
        self.progress.seen += 1;
        self.done = Some(place_of(one));
        Ok(self.page.pop_front().map(|one| (one, became)))
    }

    /// Applies the verb to all that are left, and tells each of them.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn run(
        &mut self,
        mut tell: impl FnMut(&InstanceSummary, &Applied),
    ) -> Result<Progress, ClientError> {
        while let Some((one, became)) = self.next().await? {
            tell(&one, &became);
        }
        Ok(self.progress)
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Behind which instance it goes on: for a query with this cursor ([`InstanceQuery::after`]), in this program or
    /// another one. `None` if nothing is done yet.
    #[must_use]
    pub fn cursor(&self) -> Option<&PageCursor> {
        self.done.as_ref()
    }
}

fn place_of(one: &InstanceSummary) -> PageCursor {
    let (at_ms, id) = one.key(SortKey::Created);
    PageCursor::at(&PagePosition {
        sort: InstanceQuery::new()
            .sorted(SortKey::Created, SortOrder::NewestFirst)
            .sort,
        at_ms,
        instance_id: id.to_owned(),
    })
}
