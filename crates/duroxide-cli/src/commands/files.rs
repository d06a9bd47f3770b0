//! Work on whole SQLite files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duroxide_sqlite::{BackupPace, OtherPrograms, SqliteError};
use serde_json::json;

use crate::args::{Consent, VacuumArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address, admin};

pub(crate) async fn backup(
    output: &Output,
    address: &Address,
    to: &Path,
    fast: bool,
) -> Result<(), Failure> {
    let pace = if fast {
        BackupPace::Fast
    } else {
        BackupPace::Gentle
    };
    let (from, to) = (backed_up(address)?, to.to_owned());
    let bar = output.progress(0, "backup");
    let stop = stop_on_signal()?;
    let (shown, copy) = (bar.clone(), to.clone());
    let bytes = blocking(move || {
        duroxide_sqlite::backup_at(&from, &copy, pace, |written, total| {
            shown.set_length(total);
            shown.set_position(written);
            if stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    })
    .await;
    bar.finish_and_clear();
    for left in duroxide_sqlite::unfinished_copies(&to) {
        let left = left.display();
        output.note(format!(
            "{left} is a copy that runs, or that was killed and can be deleted"
        ));
    }
    let bytes = bytes?;
    if output.json {
        output.document(&json!({ "bytes": bytes }))
    } else {
        output.line(format!("{bytes} bytes were written"))
    }
}

/// Becomes true when the process is asked to end: the draft of a copy is removed then, instead of filling the disk for
/// ever.
fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    #[cfg(unix)]
    let mut terminated = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate())?
    };
    tokio::spawn(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
        stopped.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

pub(crate) async fn vacuum(
    output: &Output,
    address: &Address,
    args: VacuumArgs,
) -> Result<(), Failure> {
    let file = file_of(address)?;
    if args.in_steps {
        return in_steps(output, address, args.consent).await;
    }
    if !args.consent.yes {
        let bytes = std::fs::metadata(&file)?.len();
        let disturbs = if args.while_running {
            "; programs that use it cannot commit meanwhile, and their activities may run again"
        } else {
            "; it is refused while a program uses it"
        };
        let text = format!("the file, {bytes} bytes, would be written anew{disturbs}");
        return match (args.consent.dry_run, output.json) {
            (true, true) => output.document(&json!({ "bytes_before": bytes, "dry_run": true })),
            (true, false) => output.line(text),
            (false, _) => Err(Failure::NeedsYes(text)),
        };
    }
    let others = others(args.while_running);
    let spinner = output.spinner("writing the file anew");
    let done = blocking(move || duroxide_sqlite::vacuum(&file, others)).await;
    spinner.finish_and_clear();
    let done = done?;
    let (before, after) = (done.bytes_before, done.bytes_after);
    if output.json {
        output.document(&json!({ "bytes_before": before, "bytes_after": after }))
    } else {
        output.line(format!("{before} bytes before, {after} after"))
    }
}

/// Gives space back a little at a time, while programs go on.
async fn in_steps(output: &Output, address: &Address, consent: Consent) -> Result<(), Failure> {
    let store = address.provider(Access::Write).await?;
    let admin = admin(&store)?;
    let mut total = 0;
    let bar = output.progress(0, "vacuum");
    let last = loop {
        if !consent.yes {
            let text = "space that is not used would be given back in small steps";
            return if consent.dry_run {
                output.line(text)
            } else {
                Err(Failure::NeedsYes(text.to_owned()))
            };
        }
        let given = admin.give_back_space().await?;
        let given = given.ok_or_else(|| Failure::Store("this store cannot do that".to_owned()))?;
        total += given.bytes;
        bar.set_length(total + given.free_bytes);
        bar.set_position(total);
        if given.is_done {
            break given;
        }
    };
    bar.finish_and_clear();
    if !last.in_steps {
        return Err(Failure::Store(format!(
            "this file was made without incremental vacuum and keeps {} bytes that it does not use; `duroxide vacuum --yes` writes it \
             anew, with incremental vacuum from then on",
            last.free_bytes
        )));
    }
    if output.json {
        output.document(&json!({ "bytes_given_back": total, "free_bytes": last.free_bytes }))
    } else {
        output.line(format!("{total} bytes were given back"))
    }
}

/// What `--while-running` says.
pub(super) fn others(while_running: bool) -> OtherPrograms {
    if while_running {
        OtherPrograms::Disturb
    } else {
        OtherPrograms::Refuse
    }
}

pub(crate) async fn import_published(
    output: &Output,
    old: &Path,
    new: &Address,
) -> Result<(), Failure> {
    let (old, new) = (old.to_owned(), file_of(new)?);
    let spinner = output.spinner("bringing the file over");
    let imported = blocking(move || duroxide_sqlite::import_published(&old, &new)).await;
    spinner.finish_and_clear();
    let imported = imported?;
    if output.json {
        return output.document(&json!({
            "instances": imported.instances,
            "executions": imported.executions,
            "events": imported.events,
            "messages": imported.messages,
            "activities": imported.activities,
            "key_values": imported.key_values,
        }));
    }
    output.line(format!(
        "{} instances with {} executions, {} events, {} messages, {} activities and {} key-values were brought over",
        imported.instances,
        imported.executions,
        imported.events,
        imported.messages,
        imported.activities,
        imported.key_values
    ))
}

/// What is wrong with the file itself.
pub(crate) async fn integrity(file: PathBuf) -> Result<Vec<String>, Failure> {
    blocking(move || duroxide_sqlite::check_integrity(&file)).await
}

/// The file to copy; of a store that is none, how it is copied.
fn backed_up(address: &Address) -> Result<PathBuf, Failure> {
    let how = match address {
        Address::Sqlite(_, file) => return Ok(file.clone()),
        Address::Postgres { schema, .. } => format!(
            "the server's own tool copies a schema as of one moment while programs go on: `pg_dump --schema={} …`",
            schema.as_deref().unwrap_or("duroxide")
        ),
        Address::Redb(file) => format!(
            "copy {} while no program has it open, for instance with `cp`",
            file.display()
        ),
    };
    let why = format!("{address}: backup copies sqlite: files; {how}");
    Err(Failure::Usage(why))
}

fn file_of(address: &Address) -> Result<PathBuf, Failure> {
    let refuse = || Failure::Usage(format!("{address}: this works on sqlite: files only"));
    address.sqlite_file().map(Path::to_owned).ok_or_else(refuse)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqliteError> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Failure::Store(error.to_string()))?;
    done.map_err(|error| Failure::Store(error.to_string()))
}
