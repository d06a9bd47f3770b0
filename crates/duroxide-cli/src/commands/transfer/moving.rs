//! `move`: everything goes from one store to another, and the first one stays closed. Killed at any moment, the next call goes on.

use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::Provider;
use serde_json::json;
use uuid::Uuid;

use super::standing::{self, Standing};
use super::{Copier, Counts, Lives, admin, cannot, held_pages};
use crate::args::{Consent, MoveArgs};
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
    let target = to.create().await?;
    let mut moving = Moving {
        from,
        to,
        copier: Copier {
            from: source,
            to: target,
            lives: Lives::Kept,
        },
        counts: Counts::default(),
    };
    let done = moving.run(output).await?;
    told(output, &moving, done)
}

fn is_postgres(address: &str) -> bool {
    address.starts_with("postgres")
}

/// Nodes would find the store closed under them.
async fn nobody_runs(source: &Arc<dyn Provider>, force: bool) -> Result<(), Failure> {
    let nodes = admin(source)?.list_nodes().await?.unwrap_or_default();
    let up = nodes.iter().filter(|node| !node.is_gone);
    let names: Vec<&str> = up.map(|node| node.node.name.as_str()).collect();
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
    from: Address,
    to: Address,
    copier: Copier,
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
            let source = admin(&self.copier.from)?.closed_because().await?;
            let target = admin(&self.copier.to)?.closed_because().await?;
            match standing::of(source.as_deref(), target.as_deref()) {
                Standing::Fresh => {
                    self.target_is_empty().await?;
                    self.close_target(Uuid::new_v4()).await?;
                    kill::point("move_target_closed");
                }
                Standing::TargetReady(id) => {
                    // Of another source, or of this one before it was opened again.
                    self.target_is_empty().await?;
                    let reason = standing::going_to(&self.to.to_string(), id);
                    close(&self.copier.from, Some(&reason)).await?;
                    kill::point("move_source_closed");
                }
                Standing::UnderWay(id) => {
                    self.copy(output).await?;
                    kill::point("move_all_copied");
                    // Another call, to another target, may have closed it anew meanwhile.
                    if admin(&self.copier.from)?.closed_because().await? != source {
                        continue;
                    }
                    let reason = standing::moved_to(&self.to.to_string(), id);
                    close(&self.copier.from, Some(&reason)).await?;
                    kill::point("move_source_told");
                }
                Standing::Arrived(_) => {
                    // A target that is less durable than the source may have lost what came last.
                    self.copy(output).await?;
                    close(&self.copier.to, None).await?;
                    kill::point("move_target_opened");
                    return Ok(Done::Now);
                }
                Standing::Done if standing::is_in(source.as_deref(), &self.to.to_string()) => {
                    return Ok(Done::Before);
                }
                Standing::Done => {
                    let reason = source.unwrap_or_default();
                    return Err(Failure::Store(format!("the source is closed: {reason}")));
                }
                Standing::Refused(why) => return Err(Failure::Store(why)),
            }
        }
    }

    async fn close_target(&self, id: Uuid) -> Result<(), Failure> {
        let reason = standing::coming_from(&self.from.to_string(), id);
        close(&self.copier.to, Some(&reason)).await
    }

    async fn target_is_empty(&self) -> Result<(), Failure> {
        is_empty(&self.copier.to, &self.to).await
    }

    async fn copy(&mut self, output: &Output) -> Result<(), Failure> {
        self.counts = copy_all(output, &self.copier).await?;
        Ok(())
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

/// Every instance goes over and is read back; then both sides hold the same ids.
pub(super) async fn copy_all(output: &Output, copier: &Copier) -> Result<Counts, Failure> {
    let bar = output.progress(0, "copy");
    let mut counts = Counts::default();
    let copied = held_pages(&copier.from, async |ids| {
        bar.inc_length(ids.len() as u64);
        copier.copy(ids, &mut counts, || bar.inc(1)).await
    });
    let there = copied.await?;
    let here = held_pages(&copier.to, async |_| Ok(())).await?;
    bar.finish_and_clear();
    match here == there {
        true => Ok(counts),
        false => Err(Failure::Store(format!(
            "the source holds {there} ids and the target {here}: somebody else writes to the target"
        ))),
    }
}

pub(super) async fn close(store: &Arc<dyn Provider>, reason: Option<&str>) -> Result<(), Failure> {
    match admin(store)?.close_store(reason).await? {
        true => Ok(()),
        false => Err(cannot("cannot be closed, and so not be moved")),
    }
}

fn told(output: &Output, moving: &Moving, done: Done) -> Result<(), Failure> {
    let (from, to) = (&moving.from, &moving.to);
    if output.json {
        let names = (from.to_string(), to.to_string());
        return output.document(&match done {
            Done::Now => json!({ "from": names.0, "to": names.1, "moved": moving.counts }),
            Done::Before => json!({ "from": names.0, "to": names.1, "was_moved_before": true }),
        });
    }
    match done {
        Done::Before => output.line(format!("{from} was moved before; nothing was done")),
        Done::Now => {
            output.line(format!(
                "{} are in {to}, each compared by its digest",
                moving.counts.told()
            ))?;
            output.line(format!(
                "{from} can still be read; it takes no messages and gives no work any more"
            ))
        }
    }
}

/// `reopen`: a store that a move closed takes messages again.
pub(crate) async fn reopen(
    output: &Output,
    address: &Address,
    consent: Consent,
) -> Result<(), Failure> {
    let store = address.provider(Access::Write).await?;
    let admin = admin(&store)?;
    let Some(reason) = admin.closed_because().await? else {
        return match output.json {
            true => output.document(&json!({ "was_closed": false })),
            false => output.line(format!("{address} is open")),
        };
    };
    if consent.yes {
        close(&store, None).await?;
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
