//! The command line as types. The help texts are the doc comments.

mod stores;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::filter::FilterArgs;
pub(crate) use stores::{
    ExportArgs, ImportArgs, ImportPublishedArgs, MigrateArgs, MoveArgs, VacuumArgs,
};

/// See, ask and steer the orchestrations on a store. No server, and no runtime, needs to run.
#[derive(Debug, Parser)]
#[command(
    name = "duroxide",
    version,
    propagate_version = false,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    /// The store: sqlite:app.db, redb:app.redb or postgres://user@host/database
    #[arg(
        long,
        short,
        global = true,
        env = "DUROXIDE_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,
    /// The schema of a PostgreSQL store, if it is not `duroxide`
    #[arg(long, global = true, env = "DUROXIDE_SCHEMA")]
    pub(crate) schema: Option<String>,
    /// JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List instances, newest first
    List(ListArgs),
    /// Count instances
    Count(CountArgs),
    /// Show one instance: what it is, and a timeline with its children
    Show(ShowArgs),
    /// Print the history of an instance
    History(HistoryArgs),
    /// Show an instance with its children
    Tree(InstanceArgs),
    /// Say what an instance waits for, and what is in its way
    #[command(visible_alias = "why")]
    Explain(InstanceArgs),
    /// Wait until an instance has ended
    Wait(WaitArgs),
    /// Start an instance
    Start(StartArgs),
    /// Start a new instance with the handler and input of another one
    Restart(RestartArgs),
    /// Send a signal to an instance
    Signal(SignalArgs),
    /// Put a message on a queue of an instance
    Enqueue(EnqueueArgs),
    /// Ask instances to cancel
    Cancel(SteerArgs),
    /// End instances at once; their code is not asked
    Terminate(SteerArgs),
    /// Pause instances: messages are kept, nothing of them runs
    Pause(SteerArgs),
    /// Let paused instances go on
    Resume(SteerArgs),
    /// Retry failed instances from the point of failure
    Retry(RetryArgs),
    /// Show the labels of an instance, or change them
    Labels(LabelsArgs),
    /// Show the key-values of an instance
    Kv(KvArgs),
    /// Look after messages that could not be delivered
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// Delete old executions of instances that continued as new
    Prune(PruneArgs),
    /// Delete what a retention rule no longer keeps
    Retention(RetentionArgs),
    /// Delete finished instances with their children
    Delete(DeleteArgs),
    /// List the nodes that run on the store, those that went silent too
    Nodes {
        /// Also list which node has which code
        #[arg(long)]
        handlers: bool,
    },
    /// Totals: instances, queues, ready work, dead letters
    Stats,
    /// Watch the store: throughput, times, queues, what is slow, what failed, nodes
    Top(TopArgs),
    /// Check the histories of the whole store
    Check,
    /// Write instances as JSON Lines
    Export(ExportArgs),
    /// Bring instances of an export into the store
    Import(ImportArgs),
    /// Move everything from one store to another, of any kind
    Move(MoveArgs),
    /// Open a store again that a move or an import closed
    Reopen(Consent),
    /// Copy an SQLite store while programs use it
    Backup {
        /// The file to write; it must not exist
        to: std::path::PathBuf,
        /// As fast as it can, instead of pausing most of the time so that programs are slowed down little
        #[arg(long)]
        fast: bool,
    },
    /// Give back the space that an SQLite store does not use
    Vacuum(VacuumArgs),
    /// Bring the schema of a store up to this build
    Migrate(MigrateArgs),
    /// Bring an SQLite file of the published 0.1.32 crate, or a schema of its duroxide-pg 0.1.38, over into a new store
    /// of any kind
    ImportPublished(ImportPublishedArgs),
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InstanceArgs {
    /// The instance
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The instance
    pub(crate) id: String,
    /// How deep children are drawn in the timeline
    #[arg(long, value_name = "LEVELS", default_value_t = 3)]
    pub(crate) depth: u32,
    /// Only what the instance did itself
    #[arg(long, conflicts_with = "depth")]
    pub(crate) no_children: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Sort by this time
    #[arg(long, value_enum, default_value_t = SortBy::Created)]
    pub(crate) sort: SortBy,
    /// Oldest first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// The page after this cursor, which the page before ended with
    #[arg(long)]
    pub(crate) after: Option<String>,
    /// Every page, whatever the limit
    #[arg(long, conflicts_with = "after")]
    pub(crate) all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    Created,
    Updated,
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Count each of these apart
    #[arg(long, value_enum, default_value_t = GroupBy::Status)]
    pub(crate) by: GroupBy,
    /// Count each value of this label apart; instances without it are left out
    #[arg(long, value_name = "KEY", conflicts_with = "by")]
    pub(crate) by_label: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    Nothing,
    Status,
    Name,
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The instance
    pub(crate) id: String,
    /// This execution instead of the current one
    #[arg(long)]
    pub(crate) execution: Option<u64>,
    /// Go on with new events until the instance has ended
    #[arg(long, short, conflicts_with = "execution")]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The instance
    pub(crate) id: String,
    /// For how long at most, as in 90s or 2h
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: std::time::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The orchestration
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The id of the new instance
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// Its input; `-` reads standard input
    #[arg(long, default_value = "")]
    pub(crate) input: String,
    /// Exactly this version of the orchestration, as in 1.2.0
    #[arg(long, value_parser = version)]
    pub(crate) version: Option<String>,
    /// A label, as in customer=acme; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::filter::label)]
    pub(crate) label: Vec<(String, String)>,
    /// A memo for people who look at it, as JSON; what is not JSON is a text
    #[arg(long, value_name = "JSON")]
    pub(crate) memo: Option<String>,
    /// How long the instance may take from its first turn on, as in 90s or 2h; after that it fails
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// The trace that it belongs to: a W3C `traceparent`
    #[arg(long, value_name = "HEADER")]
    pub(crate) traceparent: Option<String>,
    /// Do nothing if the instance exists
    #[arg(long)]
    pub(crate) if_absent: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// The instance whose handler, version and input are used, and which stays as it is; without it, all that the
    /// filter admits
    #[arg(requires = "new_id")]
    pub(crate) id: Option<String>,
    /// The id of the new instance
    #[arg(long = "as", value_name = "ID", requires = "id")]
    pub(crate) new_id: Option<String>,
    /// With a filter: each new id is the old one and this
    #[arg(
        long,
        conflicts_with = "id",
        allow_hyphen_values = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) suffix: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The instance
    pub(crate) id: String,
    /// The signal's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// What it carries; `-` reads standard input
    #[arg(long, default_value = "")]
    pub(crate) data: String,
    /// Fail unless the instance waits for it now
    #[arg(long)]
    pub(crate) if_awaited: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnqueueArgs {
    /// The instance
    pub(crate) id: String,
    /// The queue
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) queue: String,
    /// The message; `-` reads standard input
    #[arg(long, default_value = "")]
    pub(crate) data: String,
}

#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// One instance; without it, all that the filter admits
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Why; it is recorded
    #[arg(long, default_value = "by an operator")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// One instance; without it, all failed ones that the filter admits
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The first event to drop; without it, what made the instance fail
    #[arg(long, value_name = "EVENT")]
    pub(crate) from_event: Option<u64>,
    /// Wait this long for a node to take it, as in 30s
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Write one screen and end
    #[arg(long)]
    pub(crate) once: bool,
    /// How often to look, as in 2s
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) every: std::time::Duration,
}

/// A version as handlers have it: one that cannot be compared would never run.
fn version(text: &str) -> Result<String, String> {
    match semver::Version::parse(text) {
        Ok(version) => Ok(version.to_string()),
        Err(why) => Err(format!("a version is three numbers like 1.2.0: {why}")),
    }
}

/// Verbs that remove something need `--yes`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Do it
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only say what would be done
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabelsArgs {
    /// The instance
    pub(crate) id: String,
    /// Sets a label, as in seen=yes; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::filter::label)]
    pub(crate) set: Vec<(String, String)>,
    /// Removes a label; may be given several times
    #[arg(long, value_name = "KEY")]
    pub(crate) remove: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KvArgs {
    /// The instance
    pub(crate) id: String,
    /// One key; its value is printed as it is
    pub(crate) key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List dead letters, oldest first
    List {
        /// How many at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one dead letter whole
    Show {
        /// Its number
        id: u64,
    },
    /// Put dead letters back into their queues
    Requeue(LettersArgs),
    /// Forget dead letters
    Delete(LettersArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LettersArgs {
    /// Their numbers; without any, those that name an instance which the filter admits
    pub(crate) ids: Vec<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// One instance; without it, all
    pub(crate) id: Option<String>,
    /// Keep this many executions of each, the current one among them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Only executions that ended before this: a time, or a span like 30d
    #[arg(long)]
    pub(crate) before: Option<String>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    /// completed or failed; both without it
    #[arg(long)]
    pub(crate) status: Vec<duroxide_core::provider::InstanceStatus>,
    /// Only instances of this orchestration
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Delete instances that ended longer ago than this, as in 30d
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) ended_for: Option<std::time::Duration>,
    /// Keep the newest of those that have ended; alone it deletes all others
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep: Option<u32>,
    /// Keep this many executions of each instance, the current one among them
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep_executions: Option<u32>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// One root instance; without it, all finished ones that the filter admits
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Also if it has not ended
    #[arg(long, requires = "id")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
