//! Several nodes on one store, each a process of its own. In: a folder, which names the store. Out: the other nodes, while the first
//! one is measured.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::open;
use crate::system::{Subject, System};
use crate::workload::{Workload, looped};

/// How many nodes there are beside the one that is measured.
const OTHERS: usize = 3;

/// Workloads that several nodes share. The processor time is that of the first node.
pub(crate) const NAMES: &[(&str, Workload)] = &[
    ("nodes@64", looped("hello", 0, 64, 1)),
    ("nodes-idle", Workload::Idle { parked: 0 }),
];

/// The other nodes; they end with this.
pub(crate) struct Others(Vec<Child>);

impl Others {
    pub(crate) fn start(subject: Subject, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a path");
        let one = |_| {
            Command::new(&program)
                .args(["serve", subject.label()])
                .arg(folder)
                .stdin(Stdio::piped())
                .spawn()
                .expect("start a node")
        };
        Self((0..OTHERS).map(one).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for node in &mut self.0 {
            drop(node.stdin.take());
            let _ = node.wait();
        }
    }
}

/// Runs a node until its input ends.
#[tokio::main]
pub(crate) async fn serve(subject: Subject, folder: &Path) {
    let engine = open::open(subject, folder).await;
    let waited = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    // Its end is all there is to it.
    let _ = waited.await;
    engine.stop().await;
}
