//! Submissions through the adapter, while the instance begins: what is read one after the other must be so at one
//! moment.

use duroxide_core::provider::{MessageRule, Provider, StartRule, Submission, Submitted};
use duroxide_core::{StartExtras, WorkItem};

use crate::faulty::{After, Faulty, fetch, send};
use crate::support::{signal, start};

/// The row is looked at, the first turn is committed, the queue is looked at: there is neither a row nor a start.
#[tokio::test]
async fn a_message_to_an_instance_that_begins_meanwhile_is_taken() {
    let provider = Faulty::provider(None);
    send(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    *provider.store().begins.lock().unwrap() = Some((After::Row, token));
    let message = Submission::messages("i", MessageRule::MustBeAlive, vec![signal("i")]);
    let taken = provider.submit(message).await.unwrap();
    assert!(!matches!(taken, Submitted::Refused(_)), "{taken:?}");
    let (found, _, _) = fetch(&provider).await.unwrap();
    assert_eq!(found, "i", "it is delivered");
}

/// The start is found in the queue, and its first turn is committed before the request in it is looked for.
#[tokio::test]
async fn a_start_that_is_repeated_while_it_is_taken_up_is_answered_as_the_first_time() {
    let provider = Faulty::provider(None);
    let extras = StartExtras::default().with_request("r").unwrap();
    let asked = || {
        let WorkItem::StartOrchestration { input, .. } = start("i") else {
            unreachable!("a start")
        };
        let mut item = start("i");
        if let WorkItem::StartOrchestration { input: asked, .. } = &mut item {
            *asked = extras.in_front_of(input);
        }
        Submission::start(item, None, StartRule::MustBeNew, Vec::new())
    };
    let first = provider.submit(asked()).await.unwrap();
    let (_, token, _) = fetch(&provider).await.unwrap();
    *provider.store().begins.lock().unwrap() = Some((After::Queue, token));
    assert_eq!(provider.submit(asked()).await.unwrap(), first);
}
