//! The schema of a store, brought up to this build because an operator asked for it. No other command changes a schema:
//! programs of an older build could not commit any more.

use std::path::Path;

use duroxide_pg::{MigrationPolicy, PgError, PostgresProvider};
use serde_json::json;

use super::files::{blocking, others};
use crate::args::MigrateArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Access, Address, postgres};

pub(crate) async fn run(
    output: &Output,
    address: &Address,
    args: MigrateArgs,
) -> Result<(), Failure> {
    match address {
        Address::Sqlite(_, file) => sqlite(output, file, args).await,
        Address::Postgres { url, schema } => {
            if args.print {
                let sql = PostgresProvider::schema_sql(schema.as_deref().unwrap_or("duroxide"));
                return print(output, &sql.map_err(|error| address.refused(error))?);
            }
            server(output, address, (url, schema.as_deref()), args).await
        }
        Address::Redb(_) => up_to_date(output),
    }
}

/// What is missing, as a script.
fn print(output: &Output, sql: &str) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "sql": sql }))
    } else {
        output.raw(sql)
    }
}

/// The versions before and after.
#[derive(Debug, Clone, Copy)]
struct Versions {
    from: u64,
    to: u64,
}

async fn sqlite(output: &Output, file: &Path, args: MigrateArgs) -> Result<(), Failure> {
    let path = file.to_owned();
    let plan = blocking(move || duroxide_sqlite::planned_upgrade(&path)).await?;
    let versions = Versions {
        from: plan.from,
        to: plan.to,
    };
    if args.print {
        return print(output, &plan.steps.concat());
    }
    if !is_agreed(output, versions, &args)? {
        return Ok(());
    }
    let (path, others) = (file.to_owned(), others(args.while_running));
    let spinner = output.spinner("migrating the schema");
    let upgraded = blocking(move || duroxide_sqlite::upgrade(&path, others)).await;
    spinner.finish_and_clear();
    upgraded?;
    answer(output, versions)
}

async fn server(
    output: &Output,
    address: &Address,
    (url, schema): (&str, Option<&str>),
    args: MigrateArgs,
) -> Result<(), Failure> {
    let versions = match postgres(url, schema, MigrationPolicy::VerifyOnly, Access::Read).await {
        Ok(_) => return up_to_date(output),
        Err(PgError::NeedsMigration { found, needed, .. }) => Versions {
            from: u64::try_from(found).unwrap_or(0),
            to: u64::try_from(needed).unwrap_or(0),
        },
        Err(error) => return Err(address.refused(error)),
    };
    if !is_agreed(output, versions, &args)? {
        return Ok(());
    }
    let spinner = output.spinner("migrating the schema");
    let applied = postgres(url, schema, MigrationPolicy::ApplyAll, Access::Write).await;
    spinner.finish_and_clear();
    applied.map_err(|error| address.refused(error))?;
    answer(output, versions)
}

/// Returns whether to go on. If not, the command has said what it would do.
fn is_agreed(output: &Output, versions: Versions, args: &MigrateArgs) -> Result<bool, Failure> {
    let Versions { from, to } = versions;
    if from == to {
        return up_to_date(output).map(|()| false);
    }
    if args.consent.yes {
        return Ok(true);
    }
    let text = format!(
        "the schema would go from version {from} to {to}; programs of an older build could not commit any more"
    );
    match (args.consent.dry_run, output.json) {
        (true, true) => {
            output.document(&json!({ "from": from, "to": to, "done": false, "dry_run": true }))?;
        }
        (true, false) => output.line(text)?,
        (false, _) => return Err(Failure::NeedsYes(text)),
    }
    Ok(false)
}

fn up_to_date(output: &Output) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "done": false }))
    } else {
        output.line("the schema is that of this build; nothing was changed")
    }
}

fn answer(output: &Output, versions: Versions) -> Result<(), Failure> {
    let Versions { from, to } = versions;
    if output.json {
        output.document(&json!({ "from": from, "to": to, "done": true }))
    } else {
        output.line(format!("the schema went from version {from} to {to}"))
    }
}
