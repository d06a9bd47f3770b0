//! What a process did to its files, in order. In: the text of `strace -f -y -xx`. Out: writes, syncs, and the lines
//! that it acknowledged something with.

use std::collections::HashMap;
use std::path::Path;

/// The calls that are recorded.
pub(super) const CALLS: &str =
    "trace=write,pwrite64,fsync,fdatasync,ftruncate,unlink,rename,openat,fallocate";

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happened {
    Write {
        file: String,
        at: u64,
        bytes: Vec<u8>,
    },
    Resize {
        file: String,
        length: u64,
    },
    Unlink {
        file: String,
    },
    /// Everything that had happened to the file before this place is on the disk.
    Sync {
        file: String,
        covers: usize,
    },
    /// Files that were unlinked before this place are gone.
    SyncFolder {
        covers: usize,
    },
    Acknowledged(String),
}

impl Happened {
    pub(super) fn is_acknowledgement(&self) -> bool {
        matches!(self, Self::Acknowledged(_))
    }

    /// The file that it changes.
    pub(super) fn changes(&self) -> Option<&str> {
        match self {
            Self::Write { file, .. } | Self::Resize { file, .. } | Self::Unlink { file } => {
                Some(file)
            }
            Self::Sync { .. } | Self::SyncFolder { .. } | Self::Acknowledged(_) => None,
        }
    }
}

/// A run.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) happened: Vec<Happened>,
}

impl Recording {
    /// Reads a trace; files outside of the folder do not count.
    pub(super) fn parse(text: &str, folder: &Path) -> Self {
        let folder = format!("{}/", folder.display());
        let mut recording = Self::default();
        // Calls that have begun and not ended, by thread: their text, and what had happened when they began.
        let mut open: HashMap<&str, (String, usize)> = HashMap::new();
        for line in text.lines() {
            let Some((thread, call)) = line.split_once(' ') else {
                continue;
            };
            let call = call.trim_start();
            let now = recording.happened.len();
            if let Some(begun) = call.strip_suffix(" <unfinished ...>") {
                open.insert(thread, (begun.to_owned(), now));
            } else if call.starts_with("<... ") {
                let rest = call.split_once(" resumed>").map_or("", |(_, rest)| rest);
                if let Some((begun, since)) = open.remove(thread) {
                    recording.add(&format!("{begun}{rest}"), since, &folder);
                }
            } else {
                recording.add(call, now, &folder);
            }
        }
        recording
    }

    fn add(&mut self, call: &str, began: usize, folder: &str) {
        let Some((name, rest)) = call.split_once('(') else {
            return;
        };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else {
            return;
        };
        if result.starts_with('-') {
            return;
        }
        let arguments = arguments.trim_end().trim_end_matches(')');
        if name == "write" && arguments.starts_with("1<") {
            self.acknowledge(arguments);
            return;
        }
        if name == "unlink" || name == "rename" {
            let text = String::from_utf8_lossy(&bytes_of(arguments)).into_owned();
            if let Some(file) = text.strip_prefix(folder) {
                assert_eq!(name, "unlink", "no store renames files");
                let file = file.to_owned();
                self.happened.push(Happened::Unlink { file });
            }
            return;
        }
        let path = path_of(arguments);
        let is_sync = matches!(name, "fsync" | "fdatasync");
        if is_sync && path.as_deref() == folder.strip_suffix('/') {
            let covers = began;
            self.happened.push(Happened::SyncFolder { covers });
            return;
        }
        let file = path.and_then(|path| path.strip_prefix(folder).map(str::to_owned));
        let Some(file) = file else {
            return;
        };
        let numbers = numbers_after_text(arguments);
        match name {
            "pwrite64" => {
                let at = *numbers.last().expect("a place is written to");
                let bytes = bytes_of(arguments);
                self.happened.push(Happened::Write { file, at, bytes });
            }
            "ftruncate" => {
                let length = *numbers.last().expect("a length");
                self.happened.push(Happened::Resize { file, length });
            }
            "fsync" | "fdatasync" => {
                let covers = began;
                self.happened.push(Happened::Sync { file, covers });
            }
            "openat" => {}
            // Nothing that the stores do today; it would have to be understood first.
            other => panic!("{other} of {file} is not understood"),
        }
    }

    fn acknowledge(&mut self, arguments: &str) {
        let text = String::from_utf8_lossy(&bytes_of(arguments)).into_owned();
        for line in text.lines() {
            if let Some(what) = line.strip_prefix("ACK ") {
                self.happened.push(Happened::Acknowledged(what.to_owned()));
            }
        }
    }

    /// Everything that was acknowledged.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = &str> {
        self.acknowledged_before(self.happened.len())
    }

    /// What was acknowledged before a moment.
    pub(super) fn acknowledged_before(&self, moment: usize) -> impl Iterator<Item = &str> {
        let before = &self.happened[..moment];
        before.iter().filter_map(|happened| match happened {
            Happened::Acknowledged(what) => Some(what.as_str()),
            _ => None,
        })
    }

    /// As if a file had never been synced.
    pub(super) fn forget_syncs(&mut self, of: &str) {
        for happened in &mut self.happened {
            if let Happened::Sync { file, covers } = happened
                && file == of
            {
                *covers = 0;
            }
        }
    }
}

/// The file of a call's first argument, `5</folder/file>`. With `-xx` paths are in hexadecimal too.
fn path_of(arguments: &str) -> Option<String> {
    let (_, path) = arguments.split_once('<')?;
    let (path, _) = path.split_once('>')?;
    Some(if path.contains("\\x") {
        String::from_utf8_lossy(&decode(path)).into_owned()
    } else {
        path.to_owned()
    })
}

/// The bytes between the quotes.
fn bytes_of(arguments: &str) -> Vec<u8> {
    let text = arguments.split('"').nth(1).unwrap_or_default();
    decode(text)
}

fn decode(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits
        .map(|two| u8::from_str_radix(&two[..2], 16).expect("strace writes hexadecimal digits"))
        .collect()
}

/// The numbers of a call, those inside of texts and brackets left out.
fn numbers_after_text(arguments: &str) -> Vec<u64> {
    let tail = arguments.rsplit(['"', '>']).next().unwrap_or_default();
    tail.split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}
