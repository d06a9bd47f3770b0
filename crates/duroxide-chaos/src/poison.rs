//! Work that takes its process with it, whenever it is tried. In: lives of a worker that try it. Out: whether it was
//! given up after as many attempts as it may have, as what it is, and whether everything else came to its end beside
//! it.

use std::path::Path;
use std::time::Duration;

use duroxide::{Client, ErrorDetails, OrchestrationStatus};

use crate::deadly::{ACTIVITY, DEADLY_ACTIVITY, TURN};
use crate::disturbances::Notes;
use crate::ledger::{lines, now_ms};
use crate::lives::{bury, recovers, spawn};
use crate::random::Random;
use crate::skills::Skills;
use crate::store::Place;
use crate::worker::WorkerRun;
use crate::{check, clock};

/// How often it may be tried.
const ATTEMPTS: u32 = 4;
/// More lives than two of them can take.
const LIVES_MAX: u32 = 6 * ATTEMPTS;
/// Starts what is deadly, while no life is there that could try it.
#[tokio::main]
async fn start(folder: &Path, place: &Place) {
    let client = Client::new(place.open(clock::of(folder)).await);
    for id in [ACTIVITY, TURN] {
        let started = client.start_orchestration(id, id, "").await;
        started.expect("a store that is there");
    }
}

/// Lives in a folder of their own: one that leaves work behind, and as many as it takes until the deadly work is given
/// up. Returns what was wrong.
pub(crate) fn lives(folder: &Path, place: &Place, random: &mut Random) -> Vec<String> {
    std::fs::create_dir(folder).expect("a folder of its own");
    let place = place.moved_to(folder);
    let mut first = spawn(folder, &place, WorkerRun::Feed, &Skills::ALL, |_| {});
    recovers(folder, &mut first);
    std::thread::sleep(Duration::from_millis(random.between(1, 300)));
    bury(folder, &mut first);
    start(folder, &place);
    let skills = Skills {
        poison: Some(ATTEMPTS),
        ..Skills::ALL
    };
    let has_ended = (0..LIVES_MAX).any(|_| {
        let mut worker = spawn(folder, &place, WorkerRun::Finish, &skills, |_| {});
        let status = worker.wait().expect("a life");
        Notes::in_folder(folder).death(worker.life, now_ms());
        status.success()
    });
    let mut violations = if has_ended {
        check::check(folder, &place, 0).violations
    } else {
        vec![format!("it was not given up after {LIVES_MAX} lives")]
    };
    violations.extend(attempts(folder));
    violations.extend(outcomes(folder, &place));
    std::fs::remove_dir_all(folder).expect("the folder was ours");
    violations.iter().map(|v| format!("poison: {v}")).collect()
}

/// The activity ran as often as it may, and no more.
fn attempts(folder: &Path) -> Option<String> {
    let effects = lines(&folder.join("effects"));
    let name = format!(" {DEADLY_ACTIVITY} ");
    let ran = effects.iter().filter(|line| line.contains(&name)).count();
    (ran != ATTEMPTS as usize).then(|| format!("tried {ran} times, and {ATTEMPTS} are allowed"))
}

/// Both ended as what they are.
#[tokio::main]
async fn outcomes(folder: &Path, place: &Place) -> Vec<String> {
    let client = Client::new(place.open(clock::of(folder)).await);
    let mut wrong = Vec::new();
    for id in [ACTIVITY, TURN] {
        let status = client.get_orchestration_status(id).await;
        match status.expect("status") {
            OrchestrationStatus::Failed { details, .. } if is_poison(&details) => {}
            other => wrong.push(format!("{id} ended as {other:?}")),
        }
    }
    wrong
}

fn is_poison(details: &ErrorDetails) -> bool {
    matches!(details, ErrorDetails::Poison { .. }) || details.display_message().contains("poison")
}
