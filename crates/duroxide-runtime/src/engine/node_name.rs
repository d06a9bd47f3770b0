//! What a node is called where people read of it.

use super::Engine;

impl Engine {
    /// The name that the program chose, or host and process.
    pub(crate) fn node_name(&self) -> String {
        let chosen = self.options.worker_node_id.clone();
        chosen.unwrap_or_else(|| format!("{}:{}", host(), std::process::id()))
    }
}

/// The name of this machine, as far as it can be had without asking another library.
pub(crate) fn host() -> String {
    let linux = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let variable = |name: &str| std::env::var(name).ok();
    let known = linux
        .or_else(|| variable("HOSTNAME"))
        .or_else(|| variable("COMPUTERNAME"));
    let known = known.map(|name| name.trim().to_owned());
    known
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
