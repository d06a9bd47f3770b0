//! One file per family of commands. In: arguments and a client. Out: an answer, or a failure with its exit code.

mod check;
mod dead_letters;
mod export;
mod files;
mod history;
mod labels;
mod line;
mod list;
mod many;
mod migrate;
mod nodes;
mod remove;
mod retention;
mod retry;
mod send;
mod show;
mod stats;
mod steer;
mod timeline;
mod top;
mod transfer;
mod tree;
mod wait;
mod words;

use clap::CommandFactory;

use crate::args::{Arguments, Command, DeadLettersCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address};

/// Runs the command.
pub(crate) async fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let command = arguments.command;
    if let Command::Completions { shell } = command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "duroxide", &mut script);
        return output.raw(&String::from_utf8_lossy(&script));
    }
    if let Command::ImportPublished(args) = &command {
        let schema = arguments.schema.as_deref();
        return transfer::import_published(output, args, schema).await;
    }
    if let Command::Move(args) = command {
        return transfer::move_store(output, arguments.schema.as_deref(), args).await;
    }
    let address = Address::of(arguments.store.as_deref(), arguments.schema.as_deref())?;
    let client = match command {
        Command::Backup { to, fast } => return files::backup(output, &address, &to, fast).await,
        Command::Vacuum(args) => return files::vacuum(output, &address, args).await,
        Command::Migrate(args) => return migrate::run(output, &address, args).await,
        Command::Export(args) => return export::run(output, &address, args).await,
        Command::Import(args) => return transfer::import(output, &address, args).await,
        Command::Reopen(consent) => return transfer::reopen(output, &address, consent).await,
        _ => address.open(access(&command)).await?,
    };
    match command {
        Command::List(args) => list::list(&client, output, args).await,
        Command::Count(args) => list::count(&client, output, args).await,
        Command::Show(args) => show::run(&client, output, args).await,
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
        Command::Pause(args) => steer::run(&client, output, steer::Verb::Pause, args).await,
        Command::Resume(args) => steer::run(&client, output, steer::Verb::Resume, args).await,
        Command::Retry(args) => retry::run(&client, output, args).await,
        Command::Labels(args) => labels::run(&client, output, args).await,
        Command::Kv(args) => show::kv(&client, output, args).await,
        Command::DeadLetters(command) => dead_letters::run(&client, output, command).await,
        Command::Prune(args) => remove::prune(&client, output, args).await,
        Command::Retention(args) => retention::run(&client, output, args).await,
        Command::Delete(args) => remove::delete(&client, output, args).await,
        Command::Nodes { handlers } => nodes::run(&client, output, handlers).await,
        Command::Top(args) => top::run(&client, output, args).await,
        Command::Stats => stats::run(&client, output).await,
        Command::Check => check::run(&client, output, address.sqlite_file()).await,
        Command::Completions { .. }
        | Command::Backup { .. }
        | Command::Vacuum(_)
        | Command::Export(_)
        | Command::Import(_)
        | Command::Move(_)
        | Command::Reopen(_)
        | Command::Migrate(_)
        | Command::ImportPublished(_) => Ok(()),
    }
}

/// Whether a command writes; one that only looks, or only says what it would do, opens the store read-only.
fn access(command: &Command) -> Access {
    let writes = match command {
        Command::Start(_) | Command::Signal(_) | Command::Enqueue(_) => true,
        Command::Restart(args) => args.id.is_some() || args.consent.yes,
        Command::Cancel(args) | Command::Pause(args) | Command::Resume(args)
            if args.id.is_some() =>
        {
            !args.consent.dry_run
        }
        Command::Cancel(args)
        | Command::Terminate(args)
        | Command::Pause(args)
        | Command::Resume(args) => args.consent.yes,
        Command::Retry(args) => match args.id {
            Some(_) => !args.consent.dry_run,
            None => args.consent.yes,
        },
        Command::Labels(args) => !args.set.is_empty() || !args.remove.is_empty(),
        Command::Prune(args) => args.consent.yes,
        Command::Retention(args) => args.consent.yes,
        Command::Delete(args) => args.consent.yes,
        Command::DeadLetters(DeadLettersCommand::Requeue(args)) => {
            args.consent.yes || (!args.ids.is_empty() && !args.consent.dry_run)
        }
        Command::DeadLetters(DeadLettersCommand::Delete(args)) => args.consent.yes,
        _ => false,
    };
    let watches = match command {
        Command::Wait(_) | Command::Top(_) | Command::Check => true,
        Command::History(args) => args.follow,
        _ => false,
    };
    match (writes, watches) {
        (true, _) => Access::Write,
        (false, true) => Access::Watch,
        (false, false) => Access::Read,
    }
}
