//! `import`: the lines of an export become instances again. Each comes whole or not at all, as a life of its own; what is there stays.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::{InstanceSnapshot, Provider, Restoring};
use serde_json::json;
use uuid::Uuid;

use super::copy::{Counts, take, write};
use super::{admin, cannot};
use crate::args::ImportArgs;
use crate::commands::line::{digest, read};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address};

pub(crate) async fn run(
    output: &Output,
    address: &Address,
    args: ImportArgs,
) -> Result<(), Failure> {
    let lines = BufReader::new(File::open(&args.file)?).lines();
    let access = match args.dry_run {
        true => Access::Read,
        false => Access::Write,
    };
    let store = address.provider(access).await?;
    let number = args
        .resume
        .unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
    if !args.dry_run && args.resume.is_none() {
        output.note(format!(
            "import {number}; if it is cut short, go on with --resume {number}"
        ));
    }
    let bar = output.progress(0, "import");
    let mut import = Import {
        store,
        number,
        is_dry: args.dry_run,
        counts: Counts::default(),
        problems: 0,
    };
    for (place, line) in lines.enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        if let Err(why) = import.line(&line).await? {
            bar.suspend(|| output.note(format!("line {}: {why}", place + 1)));
            import.problems += 1;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    import.told(output)
}

struct Import {
    store: Arc<dyn Provider>,
    /// Of the lives that the instances get.
    number: u64,
    is_dry: bool,
    counts: Counts,
    problems: usize,
}

impl Import {
    /// Brings one line in; what is wrong with the line, if anything.
    async fn line(&mut self, line: &str) -> Result<Result<(), String>, Failure> {
        let snapshot = match read(line) {
            Ok(snapshot) => snapshot.reborn(self.number),
            Err(why) => return Ok(Err(why)),
        };
        let there = take(&self.store, &snapshot.instance_id).await?;
        if !there.is_empty() {
            return self.exists(&snapshot, &there);
        }
        if !self.is_dry {
            let refused = admin(&self.store)?.closed_because().await?;
            if let Some(reason) = refused {
                return Err(cannot(&format!("is closed: {reason}")));
            }
            match write(&self.store, &snapshot).await {
                Ok(Restoring::Done) => {}
                Ok(Restoring::Exists) => self.counts.were_there += 1,
                // Claimed at once by a node that runs: it is there, and has gone on.
                Err(_) if self.has_begun(&snapshot).await? => {}
                Err(error) => return Err(error),
            }
            kill::point("import_line");
        }
        self.counts.add(&snapshot);
        Ok(Ok(()))
    }

    /// Whether the instance of this life is there: nodes may have gone on with it before it was read back.
    async fn has_begun(&self, snapshot: &InstanceSnapshot) -> Result<bool, Failure> {
        let there = take(&self.store, &snapshot.instance_id).await?;
        let life = |it: &InstanceSnapshot| it.record.as_ref().and_then(|record| record.life);
        Ok(match life(snapshot) {
            Some(own) => life(&there) == Some(own),
            // Its start was taken.
            None => there.record.is_some(),
        })
    }

    fn exists(
        &mut self,
        snapshot: &InstanceSnapshot,
        there: &InstanceSnapshot,
    ) -> Result<Result<(), String>, Failure> {
        let life = |it: &InstanceSnapshot| it.record.as_ref().and_then(|record| record.life);
        let is_own = life(snapshot).is_some() && life(snapshot) == life(there);
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

    fn told(&self, output: &Output) -> Result<(), Failure> {
        let (counts, dry) = (&self.counts, self.is_dry);
        match output.json {
            true => output.document(&json!({
                "imported": counts, "problems": self.problems, "dry_run": dry, "number": self.number,
            }))?,
            false if dry => output.line(format!("{} would come in", counts.told()))?,
            false => output.line(format!("{} came in", counts.told()))?,
        }
        match self.problems {
            0 => Ok(()),
            problems => Err(Failure::Problems(problems)),
        }
    }
}
