//! Both queues as text, for a person who looks for something.

use crate::error::Result;
use crate::tables::{orchestrator_queue, worker_queue};
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>) -> Result<String> {
    let mut text = String::new();
    let queues = [
        ("orchestrator_queue", orchestrator_queue::dump(tx)?),
        ("worker_queue", worker_queue::dump(tx)?),
    ];
    for (name, (count, rows)) in queues {
        text.push_str(&format!("{name}: {count} rows\n"));
        for row in rows {
            text.push_str("  ");
            text.push_str(&row);
            text.push('\n');
        }
    }
    Ok(text)
}
