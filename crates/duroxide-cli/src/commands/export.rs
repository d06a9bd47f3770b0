//! Instances as JSON Lines: one line per instance, with everything that the store holds of it. A family is read from
//! one state, and parents come before their children. Where nodes run, families are of different moments: that has to
//! be asked for, and stands in the lines.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use duroxide_core::provider::rules::event_from_json;
use duroxide_core::provider::{InstanceQuery, InstanceSnapshot, Provider, SortKey, SortOrder};
use duroxide_runtime::client::Client;
use serde::Serialize;
use serde_json::json;
use tempfile::NamedTempFile;

use super::line::{FORMAT, Written};
use super::transfer::{family, held_pages, nodes_up, take};
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::filter::Pages;
use crate::output::{Output, count_of, were};
use crate::store::{Access, Address, admin};

pub(crate) async fn run(
    output: &Output,
    address: &Address,
    args: ExportArgs,
) -> Result<(), Failure> {
    let store = &address.provider(Access::Watch).await?;
    let client = &Client::new(Arc::clone(store));
    let query = match args.filter.or_one(args.id.as_deref())? {
        Some(id) => {
            client.get_instance_info(id).await?;
            InstanceQuery::new().with_root(id)
        }
        None => args.filter.query()?,
    };
    let nodes = nodes_up(store).await?;
    if !nodes.is_empty() && !args.force {
        return Err(Failure::Store(format!(
            "{} nodes run on the store: {}. Stop them first; with --force each family is read at its own moment, and what families send to \
             each other may not fit together",
            nodes.len(),
            nodes.join(", ")
        )));
    }
    let target = match &args.output {
        Some(path) => Target::file(path, args.yes, address)?,
        None => Target::Terminal(output),
    };
    let mut export = Export {
        store,
        target,
        beside_nodes: !nodes.is_empty(),
        written: 0,
        gone: 0,
        unreadable: 0,
        seen: HashSet::new(),
    };
    // Without a filter, also what has not begun, and dead letters that name no instance.
    let is_all = args.id.is_none() && args.filter.is_empty();
    let mut admitted = Vec::new();
    let mut pages = Pages::of(
        client,
        query.sorted(SortKey::Created, SortOrder::OldestFirst),
    );
    while let Some(page) = pages.next().await? {
        let ids = page.into_iter().map(|it| (it.instance_id, it.parent));
        admitted.extend(ids);
    }
    let bar = output.progress(admitted.len(), "export");
    let wanted: HashSet<&str> = admitted.iter().map(|(id, _)| id.as_str()).collect();
    // The children of an instance that was asked for by its id come along before they have begun.
    let is_wanted = |id: &str| is_all || args.id.is_some() || wanted.contains(id);
    for (id, parent) in &admitted {
        if !export.seen.contains(id) {
            let root = match (parent, &args.id) {
                (Some(_), None) => root_of(store, id).await?,
                _ => id.clone(),
            };
            export.family(&root, is_wanted).await?;
            // Its family is gone, or it has another one by now.
            if !export.seen.contains(id) {
                export.alone(id).await?;
            }
        }
        bar.inc(1);
    }
    if is_all {
        held_pages(store, async |ids| {
            for id in ids {
                if !export.seen.contains(&id) {
                    export.alone(&id).await?;
                }
            }
            Ok(())
        })
        .await?;
    }
    bar.finish_and_clear();
    export.finish(output)
}

/// The instance without a parent that another one descends from.
async fn root_of(store: &Arc<dyn Provider>, id: &str) -> Result<String, Failure> {
    let admin = admin(store)?;
    let mut root = id.to_owned();
    let mut met = HashSet::new();
    // One that was deleted meanwhile has no parent. A person with a shell can make a circle.
    while let Ok(Some(parent)) = admin.get_parent_id(&root).await {
        if !met.insert(parent.clone()) {
            break;
        }
        root = parent;
    }
    Ok(root)
}

/// An export that is being written.
struct Export<'a> {
    store: &'a Arc<dyn Provider>,
    target: Target<'a>,
    beside_nodes: bool,
    written: usize,
    gone: usize,
    unreadable: usize,
    /// The ids that have a line, or were found to be gone.
    seen: HashSet<String>,
}

impl Export<'_> {
    /// Writes those of a family that are wanted, parents first, from one state.
    async fn family(
        &mut self,
        root: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let members = match family(self.store, root).await {
            Ok(members) => members,
            // One that cannot be read costs only itself: the others are read by themselves.
            Err(Failure::Store(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        for snapshot in members {
            let id = &snapshot.instance_id;
            if is_wanted(id) && self.seen.insert(id.clone()) {
                self.line(&snapshot)?;
            }
        }
        Ok(())
    }

    async fn alone(&mut self, id: &str) -> Result<(), Failure> {
        self.seen.insert(id.to_owned());
        match take(self.store, id).await {
            Ok(snapshot) if snapshot.is_empty() => self.gone += 1,
            Ok(snapshot) => self.line(&snapshot)?,
            Err(Failure::Store(error)) => {
                let line = json!({ "format": FORMAT, "instance_id": id, "error": error });
                self.target.line(&line)?;
                self.unreadable += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn line(&mut self, snapshot: &InstanceSnapshot) -> Result<(), Failure> {
        let events = snapshot.executions.iter().flat_map(|it| &it.events);
        let damage = events
            .map(|event| event_from_json(&snapshot.instance_id, event.json.as_bytes()))
            .find_map(Result::err);
        match damage {
            Some(_) => self.unreadable += 1,
            None => self.written += 1,
        }
        let error = damage.map(|error| error.to_string());
        self.target
            .line(&Written::of(snapshot, self.beside_nodes, error)?)
    }

    fn finish(self, output: &Output) -> Result<(), Failure> {
        let (written, gone) = (self.written, self.gone);
        if self.target.finish()? {
            let (count, were) = (count_of(written as u64, "instance"), were(written as u64));
            output.note(format!("{count} {were} written"));
        }
        if gone > 0 {
            output.note(format!("{gone} instances were deleted meanwhile"));
        }
        match self.unreadable {
            0 => Ok(()),
            count => Err(Failure::Problems(count)),
        }
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
            return Err(Failure::WouldReplace(path.to_string()));
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
        let published = if replaces {
            draft.persist(path)
        } else {
            draft.persist_noclobber(path)
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
