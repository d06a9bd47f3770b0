//! Arguments of what concerns a store as a whole: data out and in, moves, files and schemas.

use clap::Args;

use super::Consent;
use crate::filter::FilterArgs;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// One instance with its children; without it, all that the filter admits
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Write to this file instead of standard output
    #[arg(long, short)]
    pub(crate) output: Option<std::path::PathBuf>,
    /// Replace the file if it exists
    #[arg(long, short, requires = "output")]
    pub(crate) yes: bool,
    /// Also while nodes run: each family is of one moment, what families send to each other may not fit together
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file that `export` wrote
    pub(crate) file: std::path::PathBuf,
    /// Only check the file, and what is there already
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Go on with an import that was cut short; it printed this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "dry_run")]
    pub(crate) resume: Option<u64>,
    /// Also while nodes run: the store is closed under them until everything is in
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The store that everything is in
    pub(crate) from: String,
    /// An empty store, or one that does not exist yet
    pub(crate) to: String,
    /// The schema of the target, if it is in PostgreSQL
    #[arg(long)]
    pub(crate) to_schema: Option<String>,
    /// Also while nodes run on the source: it is closed under them
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct ImportPublishedArgs {
    /// The file of the published crate, or postgres://… with its schema as --schema (`public` if not given); it is only
    /// read
    pub(crate) old: std::path::PathBuf,
    /// The new store, as in sqlite:new.db; a file that does not exist, or an empty schema
    pub(crate) new: String,
    /// The schema of the new store, if it is in PostgreSQL; if the old one is a file, --schema says the same
    #[arg(long)]
    pub(crate) to_schema: Option<String>,
    /// Also while a program holds leases in the old schema: they are dropped, and what it still does is lost
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VacuumArgs {
    /// Also while programs use the file: they cannot commit meanwhile, and their activities may run again
    #[arg(long)]
    pub(crate) while_running: bool,
    /// In small steps beside programs that use the file, which hardly notice
    #[arg(long, conflicts_with = "while_running")]
    pub(crate) in_steps: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Only print the SQL that is missing
    #[arg(long, conflicts_with_all = ["yes", "dry_run"])]
    pub(crate) print: bool,
    /// Also while programs use an SQLite file: those of an older build cannot commit any more
    #[arg(long)]
    pub(crate) while_running: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
