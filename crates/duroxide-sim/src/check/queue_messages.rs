//! Queue messages: what a program took is what its client sent, in order, each once. A message that was acknowledged is
//! not passed over; one whose sending failed may be there or not.

use std::sync::PoisonError;

use duroxide_runtime::OrchestrationStatus;

use super::Scene;
use crate::client::LifeLog;
use crate::program::TAKEN;

pub(super) fn check(world: &Scene) {
    for client in &world.clients {
        let lives = client
            .lives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (number, life) in lives.iter().enumerate() {
            if let Some(complaint) = complaint(life) {
                let text = format!("{} life {number}: {complaint}", client.plan.id);
                world.sim.violation(text);
            }
        }
    }
}

fn complaint(life: &LifeLog) -> Option<String> {
    let Some(OrchestrationStatus::Completed { output, .. }) = &life.outcome else {
        return None;
    };
    let (_, taken) = output.rsplit_once(TAKEN)?;
    let mut sent = life.queue_messages.iter();
    for message in taken.split(',').filter(|message| !message.is_empty()) {
        loop {
            match sent.next() {
                Some((text, _)) if text == message => break,
                Some((text, true)) => {
                    return Some(format!("{message} was taken, and {text} before it was not"));
                }
                Some((_, false)) => {}
                None => return Some(format!("{message} was taken and not sent, or twice")),
            }
        }
    }
    None
}
