//! Instances as JSON Lines: one line per instance, with all its executions and key-values.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use duroxide_core::Event;
use duroxide_core::provider::{InstanceQuery, InstanceSummary};
use duroxide_runtime::client::Client;
use serde::Serialize;

use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::filter;
use crate::output::Output;

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

pub(crate) async fn run(client: &Client, output: &Output, args: ExportArgs) -> Result<(), Failure> {
    let query = match &args.id {
        Some(id) => {
            client.get_instance_info(id).await?;
            InstanceQuery::new().with_root(id)
        }
        None => args.filter.query()?,
    };
    let instances = filter::all(client, query).await?;
    let mut file = args
        .output
        .as_ref()
        .map(File::create)
        .transpose()?
        .map(BufWriter::new);
    let bar = output.progress(instances.len(), "export");
    let count = instances.len();
    for summary in instances {
        let exported = read(client, summary).await?;
        match &mut file {
            Some(file) => {
                serde_json::to_writer(&mut *file, &exported)?;
                file.write_all(b"\n")?;
            }
            None => output.json_line(&exported)?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(file) = file {
        let file = file
            .into_inner()
            .map_err(|error| Failure::Io(error.into_error()))?;
        file.sync_all()?;
        output.note(format!("{count} instances were written"));
    }
    Ok(())
}

async fn read(client: &Client, summary: InstanceSummary) -> Result<Exported, Failure> {
    let id = &summary.instance_id;
    let mut executions = Vec::new();
    for execution_id in client.list_executions(id).await? {
        let info = client.get_execution_info(id, execution_id).await?;
        executions.push(ExportedExecution {
            execution_id,
            status: info.status,
            output: info.output,
            started_at_ms: info.started_at,
            ended_at_ms: info.completed_at,
            history: client.read_execution_history(id, execution_id).await?,
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
