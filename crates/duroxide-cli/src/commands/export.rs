//! Instances as JSON Lines: one line per instance, with all its executions and key-values.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use duroxide_core::Event;
use duroxide_core::provider::{InstanceQuery, InstanceSummary};
use duroxide_runtime::client::{Client, ClientError};
use serde::Serialize;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::filter::Pages;
use crate::output::Output;
use crate::store::Address;

/// The version of the lines.
const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Serialize)]
struct Exported {
    format: u32,
    #[serde(flatten)]
    summary: InstanceSummary,
    executions: Vec<ExportedExecution>,
    key_values: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct ExportedExecution {
    execution_id: u64,
    status: String,
    output: Option<String>,
    started_at_ms: u64,
    ended_at_ms: Option<u64>,
    history: Vec<Event>,
}

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    address: &Address,
    args: ExportArgs,
) -> Result<(), Failure> {
    let query = match args.filter.or_one(args.id.as_deref())? {
        Some(id) => {
            client.get_instance_info(id).await?;
            InstanceQuery::new().with_root(id)
        }
        None => args.filter.query()?,
    };
    let mut target = match &args.output {
        Some(path) => Target::file(path, args.yes, address)?,
        None => Target::Terminal(output),
    };
    let mut pages = Pages::of(client, query);
    let bar = output.progress(0, "export");
    let (mut written, mut gone, mut unreadable) = (0_usize, 0_usize, 0_usize);
    while let Some(page) = pages.next().await? {
        bar.inc_length(page.len() as u64);
        for summary in page {
            let id = summary.instance_id.clone();
            match read(client, summary).await {
                Ok(exported) => {
                    target.line(&exported)?;
                    written += 1;
                }
                Err(ClientError::InstanceNotFound { .. }) => gone += 1,
                Err(error) => {
                    let error = error.to_string();
                    target.line(&json!({ "format": FORMAT, "instance_id": id, "error": error }))?;
                    unreadable += 1;
                }
            }
            bar.inc(1);
        }
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

async fn read(client: &Client, summary: InstanceSummary) -> Result<Exported, ClientError> {
    let id = &summary.instance_id;
    let mut executions = Vec::new();
    for execution_id in client.list_executions(id).await? {
        let info = match client.get_execution_info(id, execution_id).await {
            Ok(info) => info,
            // Pruned meanwhile.
            Err(_) if !client.list_executions(id).await?.contains(&execution_id) => continue,
            Err(error) => return Err(error),
        };
        executions.push(ExportedExecution {
            execution_id,
            status: info.status,
            output: info.output,
            started_at_ms: info.started_at,
            ended_at_ms: info.completed_at,
            history: client.read_execution_history(id, execution_id).await?,
        });
    }
    if executions.is_empty() {
        return Err(ClientError::InstanceNotFound {
            instance_id: id.clone(),
        });
    }
    let key_values = client.get_kv_all_values(id).await?.into_iter().collect();
    Ok(Exported {
        format: FORMAT,
        executions,
        key_values,
        summary,
    })
}
