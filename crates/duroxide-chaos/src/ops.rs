//! The instances of a run, and how each must end. In: an id, what its starter was acknowledged, what became of it. Out:
//! what is wrong with that.

use std::collections::{HashMap, HashSet};

use duroxide::{AppErrorKind, ErrorDetails, OrchestrationStatus};

use crate::skills::VERSIONS;

/// Queue messages that an instance reads.
pub(crate) const MESSAGES: usize = 3;
/// What an instance reads or hears whose starter died before it had said everything.
pub(crate) const NO_MESSAGE: &str = "-";
pub(crate) const LATE: &str = "late";
/// What a starter that lives says.
pub(crate) const GO: &str = "go";
pub(crate) const REASON: &str = "asked";
/// Stands before the version of the code in an output.
pub(crate) const BY: &str = " by ";

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads messages and a signal.
    Transfer,
    /// Waits until it is cancelled, and puts things right then.
    Guarded,
}

impl Kind {
    /// The name of its handler.
    pub(crate) fn handler(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Guarded => "guarded",
        }
    }
}

/// One instance of a run, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op {
    /// The process that starts it.
    pub(crate) life: u32,
    pub(crate) kind: Kind,
    /// Whether its starter deletes it when it has ended.
    pub(crate) is_deleted: bool,
    /// Whether one of its activities has a tag.
    pub(crate) is_tagged: bool,
    /// Whether its starter asks for what it wants at once, instead of waiting until the instance is ready for it.
    pub(crate) is_hasty: bool,
}

impl Op {
    pub(crate) fn id(life: u32, lane: usize, number: u64) -> String {
        format!("op-{life}-{lane}-{number}")
    }

    /// `None` for children and for everything that is not of the workload.
    pub(crate) fn of(instance: &str) -> Option<Self> {
        let mut parts = instance.strip_prefix("op-")?.split('-');
        let life = parts.next()?.parse().ok()?;
        let lane: u64 = parts.next()?.parse().ok()?;
        let place = lane + parts.next()?.parse::<u64>().ok()?;
        Some(Self {
            life,
            kind: match place % 8 {
                3 => Kind::Guarded,
                _ => Kind::Transfer,
            },
            is_deleted: place % 10 == 5,
            is_tagged: place % 8 == 6,
            is_hasty: place % 16 == 3,
        })
    }
}

/// The root of a tree, by the id of any of its members.
pub(crate) fn root_of(instance: &str) -> &str {
    instance.split("::").next().unwrap_or(instance)
}

/// What the store acknowledged to the starter of one instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) started: bool,
    pub(crate) messages: usize,
    pub(crate) signalled: bool,
    pub(crate) cancelled: bool,
    /// The starter was about to delete it.
    pub(crate) deleting: bool,
    pub(crate) deleted: bool,
}

/// Everything that was acknowledged, from the lines of the ledger.
pub(crate) fn acknowledged_in(lines: &[String]) -> HashMap<String, Acknowledged> {
    let mut all: HashMap<String, Acknowledged> = HashMap::new();
    for line in lines {
        let Some((what, instance)) = line.split_once(' ') else {
            continue;
        };
        let acked = all.entry(instance.to_owned()).or_default();
        match what {
            "started" => acked.started = true,
            "message" => acked.messages += 1,
            "signalled" => acked.signalled = true,
            "cancelled" => acked.cancelled = true,
            "deleting" => acked.deleting = true,
            "deleted" => acked.deleted = true,
            other => panic!("the ledger says {other:?}, which nobody writes"),
        }
    }
    all
}

/// What is wrong with an instance that is there.
pub(crate) fn wrong(
    instance: &str,
    acked: Acknowledged,
    status: &OrchestrationStatus,
    values: &HashMap<String, String>,
) -> Option<String> {
    let op = Op::of(instance)?;
    let value = |key: &str| values.get(key).map(String::as_str);
    let (ends_well, values_fit) = match (op.kind, status) {
        (Kind::Transfer, OrchestrationStatus::Completed { output, .. }) => {
            let fits = output_fits(instance, output, acked);
            (fits, value("rounds") == Some("2"))
        }
        (Kind::Guarded, OrchestrationStatus::Failed { details, .. }) => {
            (is_cancelled(details, acked), value("undone") == Some("yes"))
        }
        _ => (false, true),
    };
    match (ends_well, values_fit) {
        (true, true) => None,
        (false, _) => Some(format!("{instance} ended as {status:?}, with {acked:?}")),
        (true, false) => Some(format!("{instance} has key-values {values:?}")),
    }
}

/// The output of a transfer: what its parts returned, the signal, and the messages in order.
fn output_fits(instance: &str, output: &str, acked: Acknowledged) -> bool {
    let parts = format!(": debited, credited, child of {instance}, round 2, ");
    // Whether the version is the recorded one, the history says.
    let Some((signal, messages)) = output
        .strip_prefix(instance)
        .and_then(|rest| rest.strip_prefix(BY))
        .and_then(|rest| {
            VERSIONS
                .iter()
                .find_map(|version| rest.strip_prefix(version))
        })
        .and_then(|rest| rest.strip_prefix(&parts))
        .and_then(|rest| rest.split_once(", "))
    else {
        return false;
    };
    let signal_fits = signal == GO || (signal == LATE && !acked.signalled);
    let messages: Vec<&str> = messages.split('+').collect();
    let read = messages.iter().filter(|l| **l != NO_MESSAGE).count();
    let in_order = (1..=read)
        .zip(&messages)
        .all(|(n, message)| *message == n.to_string());
    // One may have been stored and its acknowledgement lost.
    let none_lost = read == acked.messages || read == acked.messages + 1;
    signal_fits && messages.len() == MESSAGES && in_order && none_lost
}

fn is_cancelled(details: &ErrorDetails, acked: Acknowledged) -> bool {
    let ErrorDetails::Application {
        kind: AppErrorKind::Cancelled { reason },
        ..
    } = details
    else {
        return false;
    };
    reason == REASON || (reason == LATE && !acked.cancelled)
}

/// What is wrong with instances that are not there, or are there and should not be.
pub(crate) fn missing(
    acked: &HashMap<String, Acknowledged>,
    there: &HashSet<String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (instance, acked) in acked {
        let is_there = there.contains(instance);
        if is_there && acked.deleted {
            wrong.push(format!("{instance} was deleted and is there"));
        }
        if !is_there && acked.started && !acked.deleting {
            wrong.push(format!("{instance} was acknowledged and is lost"));
        }
    }
    wrong.sort();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSFER: &str = "op-7-0-0";
    const GUARDED: &str = "op-7-0-3";

    fn completed(output: &str) -> OrchestrationStatus {
        OrchestrationStatus::Completed {
            output: output.to_owned(),
            custom_status: None,
            custom_status_version: 0,
        }
    }

    fn transfer(end: &str, acked: Acknowledged) -> Option<String> {
        let output =
            format!("{TRANSFER} by 2.0.0: debited, credited, child of {TRANSFER}, round 2, {end}");
        let values = HashMap::from([("rounds".to_owned(), "2".to_owned())]);
        wrong(TRANSFER, acked, &completed(&output), &values)
    }

    fn cancelled(reason: &str, undone: &str, acked: Acknowledged) -> Option<String> {
        let details = ErrorDetails::Application {
            kind: AppErrorKind::Cancelled {
                reason: reason.to_owned(),
            },
            message: String::new(),
            retryable: false,
        };
        let status = OrchestrationStatus::Failed {
            details,
            custom_status: None,
            custom_status_version: 0,
        };
        let values = HashMap::from([("undone".to_owned(), undone.to_owned())]);
        wrong(GUARDED, acked, &status, &values)
    }

    const ALL: Acknowledged = Acknowledged {
        started: true,
        messages: 3,
        signalled: true,
        cancelled: true,
        deleting: false,
        deleted: false,
    };
    const NOTHING: Acknowledged = Acknowledged {
        started: true,
        messages: 0,
        signalled: false,
        cancelled: false,
        deleting: false,
        deleted: false,
    };

    #[test]
    fn an_instance_that_read_everything_is_right() {
        assert_eq!(transfer("go, 1+2+3", ALL), None);
        assert_eq!(transfer("late, -+-+-", NOTHING), None);
        assert_eq!(
            transfer("late, 1+-+-", NOTHING),
            None,
            "stored, not heard of"
        );
    }

    #[test]
    fn an_acknowledged_message_that_was_not_read_is_noticed() {
        assert!(transfer("go, 1+2+-", ALL).is_some());
        assert!(transfer("go, 1+3+2", ALL).is_some(), "in disorder");
        assert!(transfer("go, 1+1+2", ALL).is_some(), "twice");
        assert!(transfer("go, -+1+2", ALL).is_some(), "after its time");
        assert!(transfer("go, 1+2+3+-", ALL).is_some(), "too many");
        assert!(
            transfer("late, 1+2+3", NOTHING).is_some(),
            "nobody sent them"
        );
    }

    #[test]
    fn an_acknowledged_signal_that_was_not_heard_is_noticed() {
        assert!(transfer("late, 1+2+3", ALL).is_some());
        assert!(transfer("later, 1+2+3", ALL).is_some());
    }

    #[test]
    fn an_instance_that_failed_or_kept_the_wrong_values_is_noticed() {
        let failed = OrchestrationStatus::NotFound;
        assert!(wrong(TRANSFER, ALL, &failed, &HashMap::new()).is_some());
        let output = format!(
            "{TRANSFER} by 1.0.0: debited, credited, child of {TRANSFER}, round 2, go, 1+2+3"
        );
        assert!(wrong(TRANSFER, ALL, &completed(&output), &HashMap::new()).is_some());
        assert!(transfer("", ALL).is_some());
    }

    #[test]
    fn a_cancelled_instance_must_have_put_things_right() {
        assert_eq!(cancelled(REASON, "yes", ALL), None);
        assert_eq!(cancelled(LATE, "yes", NOTHING), None);
        assert!(cancelled(REASON, "no", ALL).is_some(), "nothing was undone");
        assert!(
            cancelled(LATE, "yes", ALL).is_some(),
            "the first request counts"
        );
        assert!(wrong(GUARDED, ALL, &completed("paid"), &HashMap::new()).is_some());
    }

    #[test]
    fn what_was_acknowledged_is_there_until_it_is_deleted() {
        let ledger = [
            "started a",
            "started b",
            "started c",
            "started d",
            "started e",
            "deleting c",
            "deleting d",
            "deleted d",
            "deleting e",
            "deleted e",
            "message f",
        ];
        let acked = acknowledged_in(&ledger.map(str::to_owned));
        let there = HashSet::from(["a".to_owned(), "e".to_owned()]);
        let wrong = missing(&acked, &there);
        assert_eq!(
            wrong,
            [
                "b was acknowledged and is lost",
                "e was deleted and is there"
            ]
        );
    }

    #[test]
    fn the_workload_has_every_kind_of_instance() {
        let ops: Vec<Op> = (0..80).filter_map(|n| Op::of(&Op::id(9, 1, n))).collect();
        assert!(ops.iter().all(|op| op.life == 9));
        for kind in [Kind::Transfer, Kind::Guarded] {
            for is_deleted in [false, true] {
                assert!(
                    ops.iter()
                        .any(|op| op.kind == kind && op.is_deleted == is_deleted)
                );
            }
        }
        assert!(ops.iter().any(|op| op.kind == Kind::Guarded && op.is_hasty));
        assert_eq!(Op::of("op-9-1-2::sub::4"), None);
        assert_eq!(Op::of("probe-9"), None);
    }
}
