//! The world outside: side effects and acknowledgements, appended to files and synced line by line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// An append-only file of lines.
pub(crate) struct Ledger {
    file: Mutex<File>,
}

impl Ledger {
    /// Opens it, or makes it.
    pub(crate) fn open(path: &Path) -> Self {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder for the ledger");
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("open the ledger");
        Self {
            file: Mutex::new(file),
        }
    }

    /// Appends a line; when this returns, the line survives.
    pub(crate) fn write(&self, line: &str) {
        let mut file = self.file.lock().expect("nobody panics while writing");
        file.write_all(format!("{line}\n").as_bytes())
            .and_then(|()| file.sync_data())
            .expect("write the ledger");
    }
}

/// All whole lines of the ledgers in a folder, those of one ledger in order.
pub(crate) fn lines_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.map(|entry| entry.expect("an entry of the folder").path());
    entries.flat_map(|path| lines(&path)).collect()
}

/// The time on which all processes of a run agree, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// All whole lines of a ledger; a last line without its end was never written.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(whole) = line.strip_suffix('\n') {
            lines.push(whole.to_owned());
        }
        line.clear();
    }
    lines
}
