//! One file per family of commands. In: arguments and a client. Out: an answer, or a failure with its exit code.

mod check;
mod dead_letters;
mod export;
mod files;
mod history;
mod list;
mod remove;
mod send;
mod show;
mod stats;
mod steer;
mod tree;
mod wait;
mod words;

use clap::CommandFactory;

use crate::args::{Arguments, Command, DeadLettersCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{self, Access};

/// Runs the command.
pub(crate) async fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let command = arguments.command;
    if let Command::Completions { shell } = command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "duroxide", &mut script);
        return output.raw(&String::from_utf8_lossy(&script));
    }
    match &command {
        Command::Backup { to } => {
            return files::backup(output, address(&arguments.store)?, to).await;
        }
        Command::Vacuum(consent) => {
            return files::vacuum(output, address(&arguments.store)?, *consent).await;
        }
        Command::ImportPublished { old, new } => {
            return files::import_published(output, old, new).await;
        }
        _ => {}
    }
    let client = store::open(arguments.store.as_deref(), access(&command)).await?;
    match command {
        Command::List(args) => list::list(&client, output, args).await,
        Command::Count(args) => list::count(&client, output, args).await,
        Command::Show(args) => show::run(&client, output, &args.id).await,
        Command::History(args) => history::run(&client, output, args).await,
        Command::Tree(args) => tree::run(&client, output, &args.id).await,
        Command::Explain(args) => wait::explain(&client, output, &args.id).await,
        Command::Wait(args) => wait::wait(&client, output, args).await,
        Command::Start(args) => send::start(&client, output, args).await,
        Command::Restart(args) => send::restart(&client, output, args).await,
        Command::Signal(args) => send::signal(&client, output, args).await,
        Command::Enqueue(args) => send::enqueue(&client, output, args).await,
        Command::Cancel(args) => steer::run(&client, output, steer::Verb::Cancel, args).await,
        Command::Terminate(args) => steer::run(&client, output, steer::Verb::Terminate, args).await,
        Command::Kv(args) => show::kv(&client, output, args).await,
        Command::DeadLetters(command) => dead_letters::run(&client, output, command).await,
        Command::Prune(args) => remove::prune(&client, output, args).await,
        Command::Delete(args) => remove::delete(&client, output, args).await,
        Command::Stats => stats::run(&client, output).await,
        Command::Check => {
            let file = arguments.store.as_deref().and_then(store::sqlite_file);
            check::run(&client, output, file).await
        }
        Command::Export(args) => export::run(&client, output, args).await,
        Command::Completions { .. }
        | Command::Backup { .. }
        | Command::Vacuum(_)
        | Command::ImportPublished { .. } => Ok(()),
    }
}

fn address(store: &Option<String>) -> Result<&str, Failure> {
    store.as_deref().ok_or_else(store::no_store)
}

/// Whether a command writes; one that only looks opens the store read-only.
fn access(command: &Command) -> Access {
    match command {
        Command::Start(_) | Command::Restart(_) | Command::Signal(_) | Command::Enqueue(_) => {
            Access::Write
        }
        Command::DeadLetters(DeadLettersCommand::Requeue { .. }) => Access::Write,
        Command::Cancel(args) | Command::Terminate(args) if !args.consent.dry_run => Access::Write,
        Command::Prune(args) if !args.consent.dry_run => Access::Write,
        Command::Delete(args) if !args.consent.dry_run => Access::Write,
        Command::DeadLetters(DeadLettersCommand::Delete { consent, .. }) if !consent.dry_run => {
            Access::Write
        }
        _ => Access::Read,
    }
}
