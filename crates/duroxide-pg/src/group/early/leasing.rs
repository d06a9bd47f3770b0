//! Leases of early turns on their way to the server ([`Op::Lease`](crate::group::write::Op::Lease)). In: such turns,
//! and writes that use their leases. Out: these writes and an answer to who asked, once the server has stored or
//! refused the lease.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::group::write::Write;

/// How many turns that lost their lease are remembered: more than a process runs at once.
const REFUSED_MAX: usize = 4_096;

/// What waits until a lease is stored.
#[derive(Debug, Default)]
struct Parked {
    callers: Vec<oneshot::Sender<bool>>,
    writes: Vec<Write>,
}

#[derive(Debug, Default)]
pub(super) struct Leasing {
    on_the_way: HashMap<Uuid, Parked>,
    /// Turns whose leases the server refused, the latest last: their code may still run, and ask.
    refused: VecDeque<Uuid>,
}

impl Leasing {
    pub(super) fn contains(&self, token: Uuid) -> bool {
        self.on_the_way.contains_key(&token)
    }

    /// The group sends this lease.
    pub(super) fn begin(&mut self, token: Uuid) {
        self.on_the_way.insert(token, Parked::default());
    }

    /// Keeps a write that uses a lease until the lease is stored; gives back any other.
    pub(super) fn park(&mut self, token: Uuid, write: Write) -> Option<Write> {
        match self.on_the_way.get_mut(&token) {
            Some(parked) => {
                parked.writes.push(write);
                None
            }
            None => Some(write),
        }
    }

    /// Answers `caller` with whether the lease is stored, once that is known. A turn that the server handed out has its
    /// lease already.
    pub(super) fn answer_when_stored(&mut self, token: Uuid, caller: oneshot::Sender<bool>) {
        match self.on_the_way.get_mut(&token) {
            Some(parked) => parked.callers.push(caller),
            None => drop(caller.send(!self.refused.contains(&token))),
        }
    }

    /// The exchange settled these leases (`false` if refused or unknown): answers the callers, and gives back the
    /// writes that waited.
    pub(super) fn settle(&mut self, leases: &[(Uuid, bool)]) -> Vec<Write> {
        let mut writes = Vec::new();
        for (token, is_stored) in leases {
            let Some(parked) = self.on_the_way.remove(token) else {
                continue;
            };
            if !is_stored {
                if self.refused.len() == REFUSED_MAX {
                    self.refused.pop_front();
                }
                self.refused.push_back(*token);
            }
            for caller in parked.callers {
                // A failed send: the caller dropped the call.
                let _ = caller.send(*is_stored);
            }
            writes.extend(parked.writes);
        }
        writes
    }
}
