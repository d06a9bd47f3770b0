//! The generic store stays generic: outside the adapter no word of orchestration is spoken.

use std::path::{Path, PathBuf};

const FORBIDDEN: [&str; 9] = [
    "instance",
    "activity",
    "activities",
    "orchestrat",
    "workflow",
    "session",
    "worker",
    "turn ",
    "timer",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn only_the_adapter_knows_orchestrations() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    files.retain(|file| !file.starts_with(src.join("adapter")));
    assert!(files.len() > 10, "the sources moved");
    let mut spoken = Vec::new();
    for file in files {
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            // Doors re-export the adapter's names; "return" is not a turn.
            let text = line.to_lowercase().replace("return ", "");
            for word in FORBIDDEN {
                if text.contains(word) {
                    spoken.push(format!("{}:{} {word}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(spoken.is_empty(), "{}", spoken.join("\n"));
}
