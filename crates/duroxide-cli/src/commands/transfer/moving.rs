//! `move`: everything goes from one store to another, and the first one stays closed. Killed at any moment, the next
//! call goes on; of two calls at the same time each step is made by one.

use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::{Closing, Provider};
use serde_json::json;
use uuid::Uuid;

use super::copy::Copied;
use super::standing::{self, Standing};
use super::{Copier, Counts, Incarnations, Source, door, held_pages};
use crate::args::{Consent, MoveArgs};
use crate::audit;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address};

pub(crate) async fn run(
    output: &Output,
    schema: Option<&str>,
    args: MoveArgs,
) -> Result<(), Failure> {
    let from = Address::of(Some(&args.from), schema.filter(|_| is_postgres(&args.from)))?;
    let to = Address::of(Some(&args.to), args.to_schema.as_deref())?;
    if from.is_same_as(&to) {
        return Err(Failure::Usage("both are the same store".to_owned()));
    }
    let source = from.provider(Access::Write).await?;
    nobody_runs(&source, args.force).await?;
    if !args.consent.yes {
        return look(output, &source, &from, &to, args.consent).await;
    }
    let target = target(&source, &to).await?;
    let mut moving = Moving {
        places: (from.place(), to.place()),
        source,
        target,
        to,
        closed_target: None,
        counts: Counts::default(),
    };
    let done = match moving.run(output).await {
        Ok(done) => done,
        Err(error) => return Err(moving.given_up(error).await),
    };
    report(output, &moving, done)
}

pub(super) fn is_postgres(address: &str) -> bool {
    address.starts_with("postgres")
}

/// Nodes would find the store closed under them.
async fn nobody_runs(source: &Arc<dyn Provider>, force: bool) -> Result<(), Failure> {
    let names = door::nodes_up(source).await?;
    if names.is_empty() || force {
        return Ok(());
    }
    Err(Failure::Store(format!(
        "{} nodes run on the source: {}. Stop them first; with --force the store is closed under them, and what they run ends unfinished \
         and goes on in the target",
        names.len(),
        names.join(", ")
    )))
}

/// The target, which is made if it does not exist: unless the source was moved already, to wherever it says.
async fn target(source: &Arc<dyn Provider>, to: &Address) -> Result<Arc<dyn Provider>, Failure> {
    match door::reason(source).await? {
        Some(reason) if standing::is_moved(&reason) => {
            if !standing::is_in(&reason, &to.place()) {
                return Err(Failure::Store(format!("the source is closed: {reason}")));
            }
            to.provider(Access::Write).await
        }
        _ => to.create().await,
    }
}

async fn look(
    output: &Output,
    source: &Arc<dyn Provider>,
    from: &Address,
    to: &Address,
    consent: Consent,
) -> Result<(), Failure> {
    let ids = held_pages(source, async |_| Ok(())).await?;
    let text =
        format!("everything of {ids} ids would go from {from} to {to}, and {from} be closed");
    match (consent.dry_run, output.json) {
        (true, true) => output.document(&json!({ "ids": ids, "dry_run": true })),
        (true, false) => output.line(text),
        (false, _) => Err(Failure::NeedsYes(text)),
    }
}

struct Moving {
    /// Where the source and the target are, for operators who read why they are closed.
    places: (String, String),
    source: Arc<dyn Provider>,
    target: Arc<dyn Provider>,
    to: Address,
    /// What this call has closed the target for.
    closed_target: Option<String>,
    counts: Counts,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Now,
    Before,
}

impl Moving {
    async fn run(&mut self, output: &Output) -> Result<Done, Failure> {
        loop {
            let source = door::reason(&self.source).await?;
            let target = door::reason(&self.target).await?;
            let (from, to) = &self.places;
            match standing::of(source.as_deref(), target.as_deref(), from, to) {
                Standing::Fresh => {
                    is_empty(&self.target, &self.to).await?;
                    let reason = standing::coming_from(from, Uuid::new_v4());
                    let closed = door::change(&self.target, None, Some(&reason)).await?;
                    self.closed_target = (closed == Closing::Done).then_some(reason);
                    kill::point("move_target_closed");
                }
                Standing::TargetReady(id) => {
                    // Something may have come before it was closed, or of this source before that was opened again.
                    is_empty(&self.target, &self.to).await?;
                    let reason = standing::going_to(to, id);
                    // If no answer comes, the source may be on its way.
                    let closed_target = self.closed_target.take();
                    let closed = door::change(&self.source, None, Some(&reason)).await?;
                    if closed != Closing::Done {
                        self.closed_target = closed_target;
                    }
                    kill::point("move_source_closed");
                }
                Standing::UnderWay(id) => {
                    let reason = standing::moved_to(to, id);
                    if self.copy(output, &source, &target).await? == Copied::NotOurs {
                        continue;
                    }
                    kill::point("move_all_copied");
                    door::change(&self.source, source.as_deref(), Some(&reason)).await?;
                    kill::point("move_source_told");
                }
                Standing::Arrived(_) => {
                    // A target that is less durable than the source may have lost what came last.
                    if self.copy(output, &source, &target).await? == Copied::NotOurs {
                        continue;
                    }
                    let opened = door::change(&self.target, target.as_deref(), None).await?;
                    kill::point("move_target_opened");
                    if opened == Closing::Done {
                        audit::line("move", &format!("{} to {}", self.places.0, self.places.1));
                        return Ok(Done::Now);
                    }
                }
                Standing::Done => return Ok(Done::Before),
                Standing::Refused(why) => return Err(Failure::Store(why)),
            }
        }
    }

    async fn copy(
        &mut self,
        output: &Output,
        source: &Option<String>,
        target: &Option<String>,
    ) -> Result<Copied, Failure> {
        let copier = Copier {
            from: Source::Store(Arc::clone(&self.source)),
            to: Arc::clone(&self.target),
            incarnations: Incarnations::Kept,
            closed: target.clone().unwrap_or_default(),
        };
        match copy_all(output, &copier).await {
            Ok(Some(counts)) => {
                self.counts = counts;
                Ok(Copied::All)
            }
            Ok(None) => Ok(Copied::NotOurs),
            // Another call may have finished meanwhile, and its target gone on.
            Err(_) if door::reason(&self.source).await? != *source => Ok(Copied::NotOurs),
            Err(_) if door::reason(&self.target).await? != *target => Ok(Copied::NotOurs),
            Err(error) => Err(error),
        }
    }

    /// Opens the target again if this call closed it and nothing is on its way; otherwise says what can be done.
    async fn given_up(&self, error: Failure) -> Failure {
        let source = door::reason(&self.source).await;
        let target = door::reason(&self.target).await;
        let (Ok(source), Ok(target)) = (source, target) else {
            return Failure::Store(format!(
                "{error}. Nothing was opened: call `duroxide move` again when both stores can be reached"
            ));
        };
        let (from, to) = &self.places;
        match standing::of(source.as_deref(), target.as_deref(), from, to) {
            Standing::UnderWay(_) | Standing::Arrived(_) => {
                return Failure::Store(format!(
                    "{error}. Both stores stay closed: call `duroxide move` again to finish, or give the move up with `duroxide reopen` \
                     on the source, and use an empty target the next time"
                ));
            }
            Standing::TargetReady(_) if self.closed_target.is_none() => {
                return Failure::Store(format!(
                    "{error}. The target stays closed: call `duroxide move` again, or open the target with `duroxide reopen`"
                ));
            }
            _ => {}
        }
        if let Some(reason) = &self.closed_target
            && let Err(failed) = door::change(&self.target, Some(reason), None).await
        {
            return Failure::Store(format!(
                "{error}. The target stays closed, open it with `duroxide reopen`: {failed}"
            ));
        }
        error
    }
}

pub(super) async fn is_empty(store: &Arc<dyn Provider>, address: &Address) -> Result<(), Failure> {
    let ids = held_pages(store, async |ids| match ids.first() {
        None => Ok(()),
        Some(id) => Err(Failure::Exists(format!(
            "{address} is not empty, it holds `{}`; an empty store is needed",
            id.escape_debug()
        ))),
    });
    ids.await.map(drop)
}

/// Every instance goes over and is read back; then both sides hold the same ids. Nothing if the target is not closed
/// for it any more.
pub(super) async fn copy_all(output: &Output, copier: &Copier) -> Result<Option<Counts>, Failure> {
    let bar = output.progress(0, "copy");
    let mut counts = Counts::default();
    let mut copied = Copied::All;
    let pages = copier.from.held_pages(async |ids| {
        if copied == Copied::All {
            bar.inc_length(ids.len() as u64);
            copied = copier.copy(ids, &mut counts, || bar.inc(1)).await?;
        }
        Ok(())
    });
    pages.await?;
    bar.finish_and_clear();
    if copied == Copied::NotOurs {
        return Ok(None);
    }
    let (there, here) = (counts.ids, held_pages(&copier.to, async |_| Ok(())).await?);
    if here == there {
        Ok(Some(counts))
    } else {
        Err(Failure::Store(format!(
            "the source holds {there} ids and the target {here}: another process writes to the target"
        )))
    }
}

fn report(output: &Output, moving: &Moving, done: Done) -> Result<(), Failure> {
    let (from, to) = &moving.places;
    if output.json {
        return output.document(&match done {
            Done::Now => json!({ "from": from, "to": to, "moved": moving.counts }),
            Done::Before => json!({ "from": from, "to": to, "was_moved_before": true }),
        });
    }
    match done {
        Done::Before => output.line(format!("{from} was moved before; nothing was done")),
        Done::Now => {
            output.line(format!(
                "{} are in {to}, each compared by its digest",
                moving.counts.in_words()
            ))?;
            output.line(format!(
                "{from} can still be read; it takes no messages and gives no work any more"
            ))
        }
    }
}

/// `reopen`: a store that a move or an import closed takes messages again.
pub(crate) async fn reopen(
    output: &Output,
    address: &Address,
    consent: Consent,
) -> Result<(), Failure> {
    let store = address.provider(Access::Write).await?;
    let Some(reason) = door::reason(&store).await? else {
        return if output.json {
            output.document(&json!({ "was_closed": false }))
        } else {
            output.line(format!("{address} is open"))
        };
    };
    if consent.yes {
        door::must_change(&store, Some(&reason), None).await?;
        audit::line("reopen", &format!("{}, {reason}", address.place()));
    }
    let text =
        format!("{address} is closed: {reason}. What went elsewhere would run in both stores");
    match (consent.yes, consent.dry_run, output.json) {
        (true, _, true) | (_, true, true) => output.document(&json!({
            "was_closed": true, "reason": reason, "dry_run": consent.dry_run,
        })),
        (true, ..) => output.line(format!("{address} is open; it was closed: {reason}")),
        (_, true, _) => output.line(text),
        _ => Err(Failure::NeedsYes(text)),
    }
}
