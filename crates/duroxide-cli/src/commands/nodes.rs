//! Who runs on the store.

use duroxide_core::provider::SeenNode;
use duroxide_runtime::client::Client;

use crate::failure::Failure;
use crate::output::{Output, Rows, ago};

/// How many activities an announcement names at most.
const HELD_MAX: usize = 100;

pub(crate) async fn run(client: &Client, output: &Output, handlers: bool) -> Result<(), Failure> {
    let nodes = client
        .nodes()
        .await?
        .ok_or_else(|| Failure::Usage("this store does not keep a list of its nodes".to_owned()))?;
    if output.json {
        return output.document(&nodes);
    }
    if nodes.is_empty() {
        output.note("no node runs on this store");
        return Ok(());
    }
    output.table(table(&nodes))?;
    if handlers {
        code(output, &nodes)
    } else {
        Ok(())
    }
}

fn table(nodes: &[SeenNode]) -> Rows {
    let mut rows = Rows::new(&[
        "NAME",
        "STATE",
        "HOST",
        "PID",
        "ENGINE",
        "STARTED",
        "SEEN",
        "ORCHESTRATIONS",
        "ACTIVITIES",
        "HOLDS",
    ]);
    for SeenNode {
        node,
        last_seen_ms,
        is_gone,
        ..
    } in nodes
    {
        rows.push([
            node.name.clone(),
            if *is_gone { "gone" } else { "up" }.to_owned(),
            node.host.clone(),
            node.pid.to_string(),
            node.engine_version.clone(),
            ago(node.started_at_ms),
            ago(*last_seen_ms),
            node.orchestrations.len().to_string(),
            node.activities.len().to_string(),
            holds(node.holds.len()),
        ]);
    }
    rows
}

/// How many activities a node holds; it names no more than a hundred.
fn holds(named: usize) -> String {
    match named {
        0..HELD_MAX => named.to_string(),
        _ => format!("{HELD_MAX} or more"),
    }
}

/// Which node has which code.
fn code(output: &Output, nodes: &[SeenNode]) -> Result<(), Failure> {
    output.raw("\n")?;
    let mut rows = Rows::new(&["NODE", "KIND", "NAME", "VERSIONS"]);
    for SeenNode { node, .. } in nodes {
        for (name, versions) in &node.orchestrations {
            let kind = "orchestration".to_owned();
            rows.push([node.name.clone(), kind, name.clone(), versions.join(" ")]);
        }
        for name in &node.activities {
            let kind = "activity".to_owned();
            rows.push([node.name.clone(), kind, name.clone(), String::new()]);
        }
    }
    output.table(rows)
}
