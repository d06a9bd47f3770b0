//! Power loss: what a process wrote and synced is recorded, and files are made as a disk may hold them when the power
//! goes: anything that was not synced is there, missing, torn, or there without what came before. In: a run of a real
//! runtime on a file, at default durability. Out: nothing that was acknowledged is lost, whatever the moment.
//!
//! Needs `strace`. `POWER_LOSS_IMAGES=5000` makes more images than every build does.

mod image;
mod opened;
mod trace;
pub(crate) mod worker;

use std::path::Path;
use std::process::Command;

use duroxide_sim::rng::Rng;

use image::image_at;
use trace::{Happened, Recording};
use worker::Kind;

/// Images per store, unless the environment says otherwise.
const IMAGES: usize = 100;

fn images() -> usize {
    let wanted = std::env::var("POWER_LOSS_IMAGES").ok();
    let wanted = wanted.map(|text| text.parse().expect("POWER_LOSS_IMAGES is a number"));
    wanted.unwrap_or(IMAGES)
}

/// Records one run, in a process of its own.
fn record(kind: Kind, folder: &Path) -> Option<Recording> {
    let trace = folder.join("trace");
    let files = folder.join("files");
    std::fs::create_dir(&files).expect("a folder can be made");
    let ran = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "16777216", "-o"])
        .arg(&trace)
        .args(["-e", trace::CALLS])
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["power_loss::the_worker", "--exact", "--nocapture"])
        .env(worker::FOLDER, &files)
        .env(worker::KIND, kind.name())
        .output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) if !std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            println!("skipped: strace cannot be run: {error}");
            return None;
        }
        Err(error) => panic!("strace cannot be run: {error}"),
    };
    let text = std::fs::read_to_string(&trace).expect("strace wrote its trace");
    let recording = Recording::parse(&text, &files);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(recording.acknowledged().count() > 40, "{said}");
    Some(recording)
}

fn survives(kind: Kind) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let Some(recording) = record(kind, folder.path()) else {
        return;
    };
    let first = recording
        .happened
        .iter()
        .position(Happened::is_acknowledgement);
    let first = first.expect("something was acknowledged");
    let mut lost = Vec::new();
    for seed in 0..images() as u64 {
        let mut rng = Rng::new(seed);
        let moment = rng.between(first as u64, recording.happened.len() as u64) as usize;
        let image = folder.path().join(format!("image-{seed}"));
        image_at(&recording, moment, &mut rng, &image);
        let acknowledged: Vec<&str> = recording.acknowledged_before(moment).collect();
        lost.extend(
            opened::look(kind, &image, &acknowledged)
                .into_iter()
                .map(|what| format!("{kind:?}, seed {seed}, moment {moment}: {what}")),
        );
        std::fs::remove_dir_all(&image).expect("an image can be removed");
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    println!("{} images of {} calls", images(), recording.happened.len());
}

#[test]
fn what_was_acknowledged_survives_power_loss_on_sqlite() {
    survives(Kind::Sqlite);
}

#[test]
fn what_was_acknowledged_survives_power_loss_on_redb() {
    survives(Kind::Redb);
}

/// The proof that the images bite: a store that does not wait for the disk loses what it acknowledged.
#[test]
fn a_store_that_does_not_sync_is_found_out() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let Some(mut recording) = record(Kind::Sqlite, folder.path()) else {
        return;
    };
    // As if no sync of the log had happened.
    recording.forget_syncs("store.db-wal");
    let moment = recording.happened.len();
    let acknowledged: Vec<&str> = recording.acknowledged_before(moment).collect();
    let loses = (0..20).any(|seed| {
        let image = folder.path().join(format!("image-{seed}"));
        image_at(&recording, moment, &mut Rng::new(seed), &image);
        !opened::look(Kind::Sqlite, &image, &acknowledged).is_empty()
    });
    assert!(loses, "no image lost anything");
}

/// Runs in the process that is recorded; does nothing in the others.
#[test]
fn the_worker() {
    worker::main();
}
