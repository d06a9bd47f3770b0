//! Instances as JSON Lines: one line per instance, with everything that the store holds of it.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use duroxide_core::provider::rules::event_from_json;
use duroxide_core::provider::{InstanceQuery, InstanceSummary, Provider};
use duroxide_runtime::client::Client;
use serde::Serialize;
use serde_json::json;
use tempfile::NamedTempFile;

use super::line::{FORMAT, Written};
use super::transfer::{held_pages, take};
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::filter::Pages;
use crate::output::Output;
use crate::store::{Access, Address};

pub(crate) async fn run(
    output: &Output,
    address: &Address,
    args: ExportArgs,
) -> Result<(), Failure> {
    let store = &address.provider(Access::Read).await?;
    let client = &Client::new(Arc::clone(store));
    let query = match args.filter.or_one(args.id.as_deref())? {
        Some(id) => {
            client.get_instance_info(id).await?;
            InstanceQuery::new().with_root(id)
        }
        None => args.filter.query()?,
    };
    // Without a filter, also what has not begun, and letters that nobody could be given.
    let is_all = args.id.is_none() && args.filter.is_empty();
    let mut target = match &args.output {
        Some(path) => Target::file(path, args.yes, address)?,
        None => Target::Terminal(output),
    };
    let mut pages = Pages::of(client, query);
    let bar = output.progress(0, "export");
    let (mut written, mut gone, mut unreadable) = (0_usize, 0_usize, 0_usize);
    let mut seen = HashSet::new();
    while let Some(page) = pages.next().await? {
        bar.inc_length(page.len() as u64);
        for summary in page {
            match line(store, &summary.instance_id, Some(&summary)).await {
                Ok(Line::Whole(line)) => {
                    target.line(&line)?;
                    written += 1;
                }
                Ok(Line::Gone) => gone += 1,
                Ok(Line::Damaged(line)) => {
                    target.line(&line)?;
                    unreadable += 1;
                }
                Err(Failure::Store(error)) => {
                    let id = &summary.instance_id;
                    target.line(&json!({ "format": FORMAT, "instance_id": id, "error": error }))?;
                    unreadable += 1;
                }
                Err(error) => return Err(error),
            }
            if is_all {
                seen.insert(summary.instance_id);
            }
            bar.inc(1);
        }
    }
    if is_all {
        held_pages(store, async |ids| {
            for id in ids.iter().filter(|id| !seen.contains(*id)) {
                // One that began meanwhile has a line of its own, or began after its page was read.
                if let Line::Whole(line) | Line::Damaged(line) = line(store, id, None).await? {
                    target.line(&line)?;
                    written += 1;
                }
            }
            Ok(())
        })
        .await?;
    }
    bar.finish_and_clear();
    if target.finish()? {
        output.note(format!("{written} instances were written"));
    }
    if gone > 0 {
        output.note(format!("{gone} instances were deleted meanwhile"));
    }
    match unreadable {
        0 => Ok(()),
        count => Err(Failure::Problems(count)),
    }
}

/// Where the lines go.
enum Target<'a> {
    Terminal(&'a Output),
    /// A draft beside the file, which gets its name when it is whole.
    File {
        draft: BufWriter<NamedTempFile>,
        path: &'a Path,
        replaces: bool,
    },
}

impl<'a> Target<'a> {
    /// A file that exists is replaced only if that was asked for, and a file of the store never is.
    fn file(path: &'a Path, replaces: bool, address: &Address) -> Result<Self, Failure> {
        if address.files().iter().any(|of| is_same_file(of, path)) {
            let path = path.display();
            return Err(Failure::Usage(format!("{path} belongs to the store")));
        }
        if path.exists() && !replaces {
            let path = path.display();
            return Err(Failure::NeedsYes(format!("{path} would be replaced")));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut prefix = path.file_name().unwrap_or_default().to_owned();
        prefix.push(".partial-");
        let draft = tempfile::Builder::new()
            .prefix(&prefix)
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self::File {
            draft: BufWriter::new(draft),
            path,
            replaces,
        })
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        match self {
            Self::Terminal(output) => output.json_line(value),
            Self::File { draft, .. } => {
                serde_json::to_writer(&mut *draft, value)?;
                Ok(draft.write_all(b"\n")?)
            }
        }
    }

    /// Publishes the file; returns whether there is one.
    fn finish(self) -> Result<bool, Failure> {
        let Self::File {
            draft,
            path,
            replaces,
        } = self
        else {
            return Ok(false);
        };
        let draft = draft.into_inner().map_err(|error| error.into_error())?;
        draft.as_file().sync_all()?;
        let published = match replaces {
            true => draft.persist(path),
            false => draft.persist_noclobber(path),
        };
        published.map_err(|failed| Failure::Io(failed.error))?;
        Ok(true)
    }
}

/// Whether both paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        if id(one).is_some() && id(one) == id(other) {
            return true;
        }
    }
    place(one).is_some() && place(one) == place(other)
}

/// What one instance becomes.
enum Line {
    Whole(Written),
    /// Part of its history cannot be read; the rest is there.
    Damaged(Written),
    /// It was deleted meanwhile.
    Gone,
}

async fn line(
    store: &Arc<dyn Provider>,
    id: &str,
    summary: Option<&InstanceSummary>,
) -> Result<Line, Failure> {
    let snapshot = take(store, id).await?;
    if snapshot.is_empty() {
        return Ok(Line::Gone);
    }
    let events = snapshot.executions.iter().flat_map(|it| &it.events);
    let damage = events
        .map(|event| event_from_json(id, event.json.as_bytes()))
        .find_map(Result::err);
    Ok(match damage {
        None => Line::Whole(Written::of(&snapshot, summary, None)?),
        Some(error) => Line::Damaged(Written::of(&snapshot, summary, Some(error.to_string()))?),
    })
}
