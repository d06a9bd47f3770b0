//! Which life of the worker this process is. In: the environment that its starter set. Out: its number, and whether the
//! process of another life is still there.

use std::path::Path;
use std::sync::OnceLock;

/// The environment variable that tells a worker its number.
pub(crate) const NUMBER: &str = "DUROXIDE_CHAOS_LIFE";

/// The number of this life.
pub(crate) fn number() -> u32 {
    static OWN: OnceLock<u32> = OnceLock::new();
    *OWN.get_or_init(|| {
        let number = std::env::var(NUMBER).expect("the starter sets the number of a worker");
        number.parse().expect("a number")
    })
}

/// Notes which process this life is. Before it does anything that others look after when it is dead.
pub(crate) fn announce(folder: &Path) {
    let lives = folder.join("lives");
    std::fs::create_dir_all(&lives).expect("a folder of the run");
    let process = std::process::id().to_string();
    std::fs::write(lives.join(number().to_string()), process).expect("a file of this life");
}

/// Whether the process of a life has ended. The system gives its id again, so the process must have the number, too.
pub(crate) fn has_died(folder: &Path, life: u32) -> bool {
    let process = std::fs::read_to_string(folder.join("lives").join(life.to_string()));
    let environment = process.and_then(|id| std::fs::read(format!("/proc/{id}/environ")));
    let own = format!("{NUMBER}={life}");
    environment.map_or(true, |all| {
        !all.split(|byte| *byte == 0)
            .any(|one| one == own.as_bytes())
    })
}
