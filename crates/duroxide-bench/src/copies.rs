//! A process that copies a store file again and again. In: the file. Out: how many copies were finished so far.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// The process; it ends with this.
pub(crate) struct Copies {
    process: Child,
    finished: Arc<AtomicUsize>,
}

impl Copies {
    pub(crate) fn start(file: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a path");
        let copying = Command::new(program)
            .arg("copy")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = copying.expect("start the copies");
        let finished = Arc::new(AtomicUsize::new(0));
        let (told, count) = (process.stdout.take(), Arc::clone(&finished));
        std::thread::spawn(move || {
            let told = BufReader::new(told.expect("its output is piped"));
            for line in told.lines().map_while(Result::ok) {
                eprintln!("  {line}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { process, finished }
    }

    /// How many copies are whole.
    pub(crate) fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let ended = self.process.wait().expect("a child of ours");
        assert!(ended.success(), "copying ended with {ended}");
    }
}

/// Copies a file again and again, until the input ends; tells each copy in a line.
pub(crate) fn copy(file: &Path) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // Its end is all there is to it.
        let _ = std::io::stdin().read(&mut [0]);
        over.store(true, Ordering::Relaxed);
    });
    let to = file.with_extension("copy");
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let copied = duroxide::providers::sqlite::backup(file, &to, |_, _| {
            if is_over.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match copied {
            Ok(bytes) => {
                let log = std::fs::metadata(file.with_extension("db-wal"));
                let log = log.map_or(0, |log| log.len());
                println!(
                    "a copy of {} MB took {:.1} s; the log of the store has {} MB",
                    bytes / 1_000_000,
                    began.elapsed().as_secs_f64(),
                    log / 1_000_000
                );
                std::fs::remove_file(&to).expect("remove a copy");
            }
            Err(error) if is_over.load(Ordering::Relaxed) => drop(error),
            Err(error) => panic!("a copy failed: {error}"),
        }
    }
}
