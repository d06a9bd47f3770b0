//! Queue messages. In: what each client sent, and what its program says that it took. Out: violations. A program takes
//! the messages in order, each once, and passes over none that the store acknowledged; one whose sending failed may be
//! there or not.

use std::sync::PoisonError;

use duroxide_runtime::OrchestrationStatus;

use super::Scene;
use crate::client::LifeLog;
use crate::program::TAKEN;

pub(super) fn check(scene: &Scene) {
    for client in &scene.clients {
        let lives = client
            .lives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (number, life) in lives.iter().enumerate() {
            if let Some(complaint) = complaint(life) {
                let text = format!("{} life {number}: {complaint}", client.plan.id);
                scene.sim.violation(text);
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
