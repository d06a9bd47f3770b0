//! `import`: the lines of an export become instances again. Each comes whole or not at all, as a life of its own; what
//! is there stays. The store is closed meanwhile, so that no node runs a child before its parent is there. If
//! the import is cut short, the store stays closed, and the next call goes on.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::rules::work_item_from_json;
use duroxide_core::provider::{InstanceSnapshot, Provider, Restoring, StoredIncarnation};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::copy::{Counts, write};
use super::source::take;
use super::{cannot, door};
use crate::args::ImportArgs;
use crate::audit;
use crate::commands::line::{digest, read};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address};

/// How a store says that an import is under way.
const UNFINISHED: &str =
    " is not finished; call `duroxide import` with the same file again to finish it";
/// Numbers that every reader of JSON keeps exactly.
const NUMBER_BITS: u32 = 53;

fn open(file: &Path) -> Result<File, Failure> {
    File::open(file).map_err(|why| cannot(&format!("cannot read {}: {why}", file.display())))
}

pub(crate) async fn run(
    output: &Output,
    address: &Address,
    args: ImportArgs,
) -> Result<(), Failure> {
    let file = content(&args)?;
    let access = if args.dry_run {
        Access::Read
    } else {
        Access::Write
    };
    let store = address.provider(access).await?;
    let begun = if args.dry_run {
        Begun::dry()
    } else {
        begin(&store, &file, &args).await?
    };
    let mut import = Import {
        store,
        begun,
        is_dry: args.dry_run,
        counts: Counts::default(),
        has_tried: false,
        problems: 0,
        incarnations: HashMap::new(),
        beside_nodes: 0,
    };
    match import.all(output, &args).await {
        Ok(()) => {
            import.open(address, &args).await?;
            import.report(output)
        }
        Err(error) => Err(import.given_up(error).await),
    }
}

/// What tells the file from any other one.
fn content(args: &ImportArgs) -> Result<String, Failure> {
    let mut reader = BufReader::new(open(&args.file)?);
    let mut hash = Sha256::new();
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        let length = bytes.len();
        reader.consume(length);
    }
    let hex: String = hash
        .finalize()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    Ok(hex[..16].to_owned())
}

/// An import that the store is closed for.
struct Begun {
    /// Of the incarnations that the instances get.
    number: u64,
    /// What the store is closed for.
    reason: String,
    /// Whether it was this call that closed it.
    by_us: bool,
}

impl Begun {
    fn dry() -> Self {
        Self {
            number: 0,
            reason: String::new(),
            by_us: false,
        }
    }
}

/// Closes the store for the import of this file, or finds it closed for it: then it goes on with the incarnations that
/// it has begun with.
async fn begin(store: &Arc<dyn Provider>, file: &str, args: &ImportArgs) -> Result<Begun, Failure> {
    if let Some(reason) = door::reason(store).await? {
        let known = number_of(&reason, file);
        return match known.filter(|number| args.resume.is_none_or(|it| it == *number)) {
            Some(number) => Ok(Begun {
                number,
                reason,
                by_us: false,
            }),
            None => Err(cannot(&format!("is closed: {reason}"))),
        };
    }
    let nodes = door::nodes_up(store).await?;
    if !nodes.is_empty() && !args.force {
        return Err(Failure::Store(format!(
            "{} nodes run on the store: {}. Stop them first; with --force the store is closed under them until everything is in",
            nodes.len(),
            nodes.join(", ")
        )));
    }
    let drawn = || Uuid::new_v4().as_u64_pair().0 >> (u64::BITS - NUMBER_BITS);
    let number = args.resume.unwrap_or_else(drawn);
    let reason = format!("import {number} of file {file}{UNFINISHED}");
    door::must_change(store, None, Some(&reason)).await?;
    kill::point("import_begun");
    Ok(Begun {
        number,
        reason,
        by_us: true,
    })
}

/// The number of an import of this file that a store is closed for.
fn number_of(reason: &str, file: &str) -> Option<u64> {
    let (number, of) = reason.strip_prefix("import ")?.split_once(" of file ")?;
    (of.strip_suffix(UNFINISHED)? == file).then_some(())?;
    number.parse().ok()
}

struct Import {
    store: Arc<dyn Provider>,
    begun: Begun,
    is_dry: bool,
    counts: Counts,
    /// Whether a line was given to the store.
    has_tried: bool,
    problems: usize,
    /// The incarnations of the instances that were met so far; the closed store keeps them as they are.
    incarnations: HashMap<String, Option<StoredIncarnation>>,
    /// Lines that were exported while nodes ran.
    beside_nodes: usize,
}

impl Import {
    async fn all(&mut self, output: &Output, args: &ImportArgs) -> Result<(), Failure> {
        let mut reader = BufReader::new(open(&args.file)?);
        let bar = output.progress(0, "import");
        let mut bytes = Vec::new();
        let mut place = 0;
        while reader.read_until(b'\n', &mut bytes)? > 0 {
            place += 1;
            let line = String::from_utf8(std::mem::take(&mut bytes));
            let done = match line {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => self.line(&line).await?,
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = done {
                bar.suspend(|| output.note(format!("line {place}: {why}")));
                self.problems += 1;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        if self.beside_nodes > 0 {
            output.note(format!(
                "{} lines were exported while nodes ran: each family is of one moment, and what instances of different families sent to each \
                 other may be missing",
                self.beside_nodes
            ));
        }
        Ok(())
    }

    /// Brings one line in; what is wrong with the line, if anything.
    async fn line(&mut self, line: &str) -> Result<Result<(), String>, Failure> {
        let (snapshot, beside_nodes) = match read(line) {
            Ok(read) => (read.snapshot.reborn(self.begun.number), read.beside_nodes),
            Err(why) => return Ok(Err(why)),
        };
        self.beside_nodes += usize::from(beside_nodes);
        let there = take(&self.store, &snapshot.instance_id).await?;
        if !there.is_empty() {
            self.incarnations
                .insert(there.instance_id.clone(), incarnation(&there));
            return self.exists(&snapshot, &there);
        }
        if let Err(why) = self.fits_its_parent(&snapshot).await? {
            return Ok(Err(why));
        }
        if !self.is_dry {
            // What is not answered may be in.
            self.has_tried = true;
            match write(&self.store, &snapshot, &self.begun.reason).await? {
                Restoring::Done => {}
                Restoring::Exists => self.counts.were_there += 1,
                Restoring::Unexpected(Some(reason)) => {
                    return Err(cannot(&format!("is closed: {reason}")));
                }
                Restoring::Unexpected(None) => {
                    return Err(cannot("was opened by another process meanwhile"));
                }
            }
            kill::point("import_line");
        }
        let id = snapshot.instance_id.clone();
        self.incarnations.insert(id, incarnation(&snapshot));
        self.counts.add(&snapshot);
        Ok(Ok(()))
    }

    /// A child that names another life of its parent could not report to it, and the parent would wait for ever.
    async fn fits_its_parent(
        &mut self,
        snapshot: &InstanceSnapshot,
    ) -> Result<Result<(), String>, Failure> {
        let Some((parent, wanted)) = parent_of(snapshot) else {
            return Ok(Ok(()));
        };
        let found = match self.incarnations.get(&parent) {
            Some(found) => *found,
            None => {
                let found = incarnation(&take(&self.store, &parent).await?);
                self.incarnations.insert(parent.clone(), found);
                found
            }
        };
        if found.is_none() || found == wanted {
            return Ok(Ok(()));
        }
        Ok(Err(format!(
            "`{}` is a child of `{}`, which is there already as another one; it was left out",
            snapshot.instance_id.escape_debug(),
            parent.escape_debug()
        )))
    }

    fn exists(
        &mut self,
        snapshot: &InstanceSnapshot,
        there: &InstanceSnapshot,
    ) -> Result<Result<(), String>, Failure> {
        let is_own = incarnation(snapshot).is_some() && incarnation(snapshot) == incarnation(there);
        if is_own || digest(snapshot)? == digest(there)? {
            self.counts.add(snapshot);
            self.counts.were_there += 1;
            return Ok(Ok(()));
        }
        let id = snapshot.instance_id.escape_debug();
        Ok(Err(format!(
            "`{id}` is there already, and was left as it is"
        )))
    }

    /// Everything is in: the store goes on.
    async fn open(&self, address: &Address, args: &ImportArgs) -> Result<(), Failure> {
        if self.is_dry {
            return Ok(());
        }
        let opened = door::must_change(&self.store, Some(&self.begun.reason), None).await;
        if let Err(error) = opened {
            // The answer may have been lost, and the store be open.
            let is_open = matches!(door::reason(&self.store).await, Ok(None));
            if !is_open {
                return Err(self.given_up(error).await);
            }
        }
        let detail = format!("{} into {}", args.file.display(), address.place());
        audit::line("import", &detail);
        Ok(())
    }

    /// Opens the store again if nothing came in; otherwise says what can be done.
    async fn given_up(&self, error: Failure) -> Failure {
        if self.is_dry {
            return error;
        }
        if self.begun.by_us && !self.has_tried {
            let opened = door::must_change(&self.store, Some(&self.begun.reason), None);
            if opened.await.is_ok() {
                return error;
            }
        }
        Failure::Store(format!(
            "{error}. The store stays closed, as import {}: call `duroxide import` with the same file again to finish, or open it with \
             `duroxide reopen`",
            self.begun.number
        ))
    }

    fn report(&self, output: &Output) -> Result<(), Failure> {
        let (counts, dry) = (&self.counts, self.is_dry);
        if output.json {
            output.document(&json!({
                "imported": counts, "problems": self.problems, "dry_run": dry, "number": self.begun.number,
            }))?;
        } else if dry {
            output.line(format!("{} would come in", counts.in_words()))?;
        } else {
            output.line(format!("{} came in", counts.in_words()))?;
        }
        match self.problems {
            0 => Ok(()),
            problems => Err(Failure::Problems(problems)),
        }
    }
}

fn incarnation(snapshot: &InstanceSnapshot) -> Option<StoredIncarnation> {
    snapshot
        .record
        .as_ref()
        .and_then(|record| record.incarnation)
}

/// The parent of an instance, also of one that has not begun, and the life of it that it belongs to.
fn parent_of(snapshot: &InstanceSnapshot) -> Option<(String, Option<StoredIncarnation>)> {
    if let Some(record) = &snapshot.record {
        // A parent that is unknown by its life is any.
        let incarnation = record.parent_incarnation?;
        return Some((record.parent.clone()?, Some(incarnation)));
    }
    snapshot.messages.iter().find_map(|message| {
        let item = work_item_from_json(message.json.as_bytes()).ok()?;
        let parent = item.starts_child_of()?.to_owned();
        Some((parent, Some(message.sent_by?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_says_which_file_it_is_closed_for() {
        let reason = format!("import 42 of file abc{UNFINISHED}");
        assert_eq!(number_of(&reason, "abc"), Some(42));
        assert_eq!(number_of(&reason, "ab"), None);
        assert_eq!(number_of("moved to sqlite:a.db", "abc"), None);
    }
}
