//! Deletions and prunings in steps: transactions of others go on between two of them. In: roots, or a filter. Out: what
//! went, all in all. Each step is an operation of `ops/` and one transaction.

use std::sync::Arc;

use duroxide_core::provider::{
    DeleteInstanceResult, InstanceFilter, ProviderError, PruneOptions, PruneResult,
};

use crate::error::{AtOperation as _, SqliteError};
use crate::handle::SqliteProvider;
use crate::ops::closed::while_open;
use crate::ops::delete::{Deleted, Still, Swept};
use crate::ops::{delete, delete_family, prune, steps};
use crate::requests::LeaseView;
use crate::store::ReadView;
use crate::tables::deletions;
use crate::tx::{Tx, stored_ms};
use crate::writer_tx::WriterTx;

type Answer<T> = Result<T, ProviderError>;

/// How many instances one transaction of a bulk operation takes, so that turns are not held up behind it.
const BULK_STEP: usize = 32;
/// How often a sweep that failed is tried again: each try may spoil the transaction of others.
const SWEEP_TRIES: u32 = 3;

impl SqliteProvider {
    /// Deletes finished instances that a filter admits, with their trees, some in each transaction.
    pub(crate) async fn delete_in_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Answer<DeleteInstanceResult> {
        const OPERATION: &str = "delete_instance_bulk";
        let mut left = usize::try_from(filter.limit.unwrap_or(steps::BULK_LIMIT)).unwrap_or(0);
        let ended_before = filter.completed_before.map(stored_ms);
        let select = move |tx: &mut Tx<'_>| delete::bulk_roots(tx, &filter);
        let roots = self.reading(OPERATION, select).await?;
        let mut total = DeleteInstanceResult::default();
        let mut roots = roots.as_slice();
        while left > 0 && !roots.is_empty() {
            let part = &roots[..roots.len().min(BULK_STEP)];
            let done = self
                .delete_roots(OPERATION, part, ended_before, left)
                .await?;
            left -= done.deleted;
            roots = &roots[done.looked_at..];
            delete::add(&mut total, &self.sweep_left_of(OPERATION, done.gone).await);
            if let (true, [root, rest @ ..]) = (done.is_too_large && left > 0, roots) {
                let deleted = self.delete_family(OPERATION, root, ended_before, &mut total);
                let is_whole = match deleted.await {
                    Err(error @ SqliteError::Damaged { .. }) => {
                        tracing::error!(target: "duroxide::providers::sqlite", instance_id = %root, %error, "a family cannot be deleted because part of it cannot be read; restore a backup");
                        false
                    }
                    deleted => deleted.at(OPERATION)?,
                };
                left -= usize::from(is_whole);
                roots = rest;
            }
        }
        Ok(total)
    }

    /// Deletes old executions of one instance, a bounded part in each transaction.
    pub(crate) async fn prune_one(
        &self,
        instance_id: &str,
        options: &PruneOptions,
    ) -> Answer<PruneResult> {
        let mut total = PruneResult::default();
        loop {
            let (id, options) = (instance_id.to_owned(), options.clone());
            let step = move |tx: &mut WriterTx<'_>| prune::step(tx, &id, &options);
            let step = self
                .writing("prune_executions", LeaseView::Needed, step)
                .await?;
            prune::add(&mut total, &step.result);
            if step.is_done {
                return Ok(total);
            }
        }
    }

    /// Deletes old executions of the instances that a filter admits, a bounded part in each transaction.
    pub(crate) async fn prune_in_bulk(
        &self,
        filter: InstanceFilter,
        options: &PruneOptions,
    ) -> Answer<PruneResult> {
        const OPERATION: &str = "prune_executions_bulk";
        let select = move |tx: &mut Tx<'_>| prune::bulk_instances(tx, &filter);
        let mut ids = self.reading(OPERATION, select).await?;
        let mut total = PruneResult::default();
        // How many of the last ones go alone, because one of them cannot be read.
        let mut alone: usize = 0;
        while !ids.is_empty() {
            let going = ids.split_off(if alone > 0 { ids.len() - 1 } else { 0 });
            // May run again if the transaction it is part of is begun anew.
            let (these, options) = (going.clone(), options.clone());
            let step = move |tx: &mut WriterTx<'_>| prune::bulk_step(tx, these.clone(), &options);
            match self.store.write(LeaseView::Needed, while_open(step)).await {
                Ok((left, counts)) => {
                    alone = alone.saturating_sub(usize::from(left.is_empty()));
                    ids.extend(left);
                    prune::add(&mut total, &counts);
                }
                Err(error @ SqliteError::Damaged { .. }) => match going.as_slice() {
                    [one] => {
                        tracing::error!(target: "duroxide::providers::sqlite", instance_id = %one, %error, "an instance cannot be pruned because part of it cannot be read; restore a backup");
                        alone = alone.saturating_sub(1);
                    }
                    _ => {
                        alone = prune::BULK_STEP.min(going.len());
                        ids.extend(going);
                    }
                },
                Err(error) => return Err(error).at(OPERATION),
            }
        }
        Ok(total)
    }

    /// Deletes some roots with their trees. One that cannot be read costs only itself.
    async fn delete_roots(
        &self,
        operation: &str,
        roots: &[String],
        ended_before: Option<i64>,
        limit: usize,
    ) -> Answer<delete::BulkStep> {
        let all = roots.to_vec();
        let step = move |tx: &mut WriterTx<'_>| delete::bulk_step(tx, &all, ended_before, limit);
        let error = match self.store.write(LeaseView::Needed, while_open(step)).await {
            Err(error @ SqliteError::Damaged { .. }) => error,
            done => return done.at(operation),
        };
        let mut total = delete::BulkStep::default();
        if let [root] = roots {
            tracing::error!(target: "duroxide::providers::sqlite", instance_id = %root, %error, "an instance cannot be deleted because part of it cannot be read; restore a backup");
            total.looked_at = 1;
            return Ok(total);
        }
        for root in roots.chunks(1) {
            let left = limit - total.deleted;
            let one = Box::pin(self.delete_roots(operation, root, ended_before, left));
            let one = one.await?;
            total.looked_at += one.looked_at;
            total.deleted += one.deleted;
            total.gone.add(one.gone);
            if one.is_too_large || one.looked_at == 0 {
                total.is_too_large = one.is_too_large;
                break;
            }
        }
        Ok(total)
    }

    /// Deletes a finished family that is too large for one transaction, step by step, and adds what went to `total`;
    /// returns whether that was all of it.
    async fn delete_family(
        &self,
        operation: &str,
        root: &str,
        ended_before: Option<i64>,
        total: &mut DeleteInstanceResult,
    ) -> Result<bool, SqliteError> {
        let id = root.to_owned();
        let look = move |tx: &mut Tx<'_>| delete_family::read(tx, &id, ended_before);
        let Some(mut family) = self.store.read(ReadView::Committed, look).await? else {
            return Ok(false);
        };
        loop {
            let members = family.next();
            if members.is_empty() {
                return Ok(true);
            }
            let (root, ended_before) = family.root();
            let (root, going) = (root.to_owned(), members.clone());
            let step =
                move |tx: &mut WriterTx<'_>| delete_family::step(tx, (&root, ended_before), &going);
            let gone = self.store.write(LeaseView::Needed, while_open(step));
            let Some(gone) = gone.await? else {
                return Ok(false);
            };
            family.gone(&members);
            delete::add(total, &self.sweep_left_of(operation, gone).await);
        }
    }

    /// Deletes what is left of instances that a transaction of this call deleted; returns what went all in all. The
    /// deletion itself is committed: what fails here is logged, and goes on with the next deletion of this process, the
    /// next opening or a claim of the id. What earlier deletions of this process left goes after that, and is not
    /// counted.
    pub(crate) async fn sweep_left_of(
        &self,
        operation: &str,
        deleted: Deleted,
    ) -> DeleteInstanceResult {
        let mut gone = deleted.counts;
        for id in deleted.left_of {
            let swept = self.sweep_one(operation, id, delete::sweep_deleted);
            delete::add(&mut gone, &swept.await);
        }
        self.sweep_unswept(operation).await;
        gone
    }

    /// Deletes what deletions of this process left because they failed, were dropped, or replaced a tree whose caller
    /// does not wait for that.
    async fn sweep_unswept(&self, operation: &str) {
        for id in self.store.unswept.all() {
            self.sweep_one(operation, id, delete::sweep_deleted).await;
        }
    }

    /// The same, beside the caller.
    pub(crate) fn sweep_in_background(&self, operation: &'static str) {
        if self.store.unswept.all().is_empty() {
            return;
        }
        let provider = Self {
            store: Arc::clone(&self.store),
        };
        tokio::spawn(async move { provider.sweep_unswept(operation).await });
    }

    /// Deletes what processes that died left of deletions and of restores. Only for opening: no restore of this process
    /// runs then.
    pub(crate) async fn sweep_all(&self, operation: &str) {
        let mut after: Option<String> = None;
        loop {
            // Asked of a reader: there is rarely anything.
            let next = move |tx: &mut Tx<'_>| deletions::next(tx, after.as_deref());
            let next = match self.reading(operation, next).await {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(target: "duroxide::providers::sqlite", %error, "what is left of deleted instances stays for now");
                    return;
                }
            };
            after = Some(next.clone());
            self.sweep_one(operation, next, delete::sweep).await;
        }
    }

    /// Deletes what is left of one instance, step by step; returns what went.
    async fn sweep_one(
        &self,
        operation: &str,
        instance: String,
        sweep: fn(&mut WriterTx<'_>, &str, usize) -> Result<Swept, SqliteError>,
    ) -> DeleteInstanceResult {
        let mut gone = DeleteInstanceResult::default();
        let mut tries_left = SWEEP_TRIES;
        loop {
            let id = instance.clone();
            let step = move |tx: &mut WriterTx<'_>| sweep(tx, &id, steps::STEP_ROWS);
            // Swept in a closed store too: no read shows these rows.
            let swept = self.writing_always(operation, LeaseView::Needed, step);
            match swept.await {
                Ok(swept) => {
                    delete::add(&mut gone, &swept.counts);
                    if swept.still != Still::Some {
                        self.store.unswept.remove(&instance);
                        return gone;
                    }
                    tries_left = SWEEP_TRIES;
                }
                // What cannot be read was remembered, and the next try passes over it.
                Err(error) if error.is_retryable() && tries_left > 0 => tries_left -= 1,
                Err(error) => {
                    tracing::warn!(target: "duroxide::providers::sqlite", instance_id = %instance, %error, "what is left of a deleted instance stays for now");
                    return gone;
                }
            }
        }
    }
}
