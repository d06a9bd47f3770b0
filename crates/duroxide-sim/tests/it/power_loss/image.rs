//! Files as a disk may hold them when the power goes. In: a recording, a moment. Out: a folder.
//!
//! What happened to a file before its last sync is there. Of the rest each change is there or not, by chance and in any
//! order, and a write may be torn between two sectors.

use std::collections::BTreeMap;
use std::path::Path;

use duroxide_sim::rng::Rng;

use super::trace::{Happened, Recording};

/// Disks write this many bytes whole or not at all.
const SECTOR: usize = 512;

/// Makes the folder of a moment.
pub(super) fn image_at(recording: &Recording, moment: usize, rng: &mut Rng, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder can be made");
    let happened = &recording.happened[..moment];
    let mut synced: BTreeMap<&str, usize> = BTreeMap::new();
    for event in happened {
        match event {
            Happened::Sync { file, covers } => {
                let until = synced.entry(file).or_default();
                *until = (*until).max(*covers);
            }
            Happened::SyncFolder { covers } => {
                for (place, event) in happened[..*covers].iter().enumerate() {
                    if let Happened::Unlink { file } = event {
                        let until = synced.entry(file).or_default();
                        *until = (*until).max(place + 1);
                    }
                }
            }
            _ => {}
        }
    }
    let mut files: BTreeMap<&str, Option<Vec<u8>>> = BTreeMap::new();
    let mut unsynced: BTreeMap<&str, Vec<&Happened>> = BTreeMap::new();
    for (place, event) in happened.iter().enumerate() {
        let Some(file) = event.changes() else {
            continue;
        };
        if place < synced.get(file).copied().unwrap_or(0) {
            apply(files.entry(file).or_default(), event, None);
        } else {
            unsynced.entry(file).or_default().push(event);
        }
    }
    // A disk that lost nothing, everything, or something.
    let kept = *rng.pick(&[0, 300, 500, 900, 1_000]);
    for (file, mut changes) in unsynced {
        let is_reordered = rng.chance(500);
        changes.retain(|_| rng.chance(kept));
        while is_reordered && changes.len() > 1 && rng.chance(900) {
            let (a, b) = (rng.below(changes.len()), rng.below(changes.len()));
            changes.swap(a, b);
        }
        for change in changes {
            let is_torn = rng.chance(200);
            apply(
                files.entry(file).or_default(),
                change,
                is_torn.then_some(&mut *rng),
            );
        }
    }
    for (file, bytes) in files {
        if let Some(bytes) = bytes {
            std::fs::write(folder.join(file), bytes).expect("a file can be written");
        }
    }
}

fn apply(bytes: &mut Option<Vec<u8>>, change: &Happened, torn: Option<&mut Rng>) {
    match change {
        Happened::Write {
            at, bytes: written, ..
        } => {
            let at = *at as usize;
            let file = bytes.get_or_insert_default();
            let (from, to) = match torn {
                None => (0, written.len()),
                Some(rng) => part(rng, at, written.len()),
            };
            if file.len() < at + to {
                file.resize(at + to, 0);
            }
            file[at + from..at + to].copy_from_slice(&written[from..to]);
        }
        Happened::Resize { length, .. } => {
            bytes.get_or_insert_default().resize(*length as usize, 0);
        }
        Happened::Unlink { .. } => *bytes = None,
        Happened::Sync { .. } | Happened::SyncFolder { .. } | Happened::Acknowledged(_) => {}
    }
}

/// The beginning or the end of a write, cut between two sectors of the disk.
fn part(rng: &mut Rng, at: usize, length: usize) -> (usize, usize) {
    let first = SECTOR - at % SECTOR;
    let cuts: Vec<usize> = (first..length).step_by(SECTOR).collect();
    if cuts.is_empty() {
        // Within one sector: whole.
        (0, length)
    } else {
        if rng.chance(500) {
            (0, *rng.pick(&cuts))
        } else {
            (*rng.pick(&cuts), length)
        }
    }
}
