//! What becomes of an open child when its parent ends: each policy under each ending, with the parent's code and
//! without it.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;
use duroxide::{EventKind, OnDivergence, OrchestrationStatus, RuntimeOptions};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Policy {
    Abandon,
    Cancel,
    Request,
}

const POLICIES: [Policy; 3] = [Policy::Abandon, Policy::Cancel, Policy::Request];

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Ending {
    Returns,
    Fails,
    Panics,
    ContinuesAsNew,
    IsCancelled,
    IsTerminated,
    RunsOutOfTime,
}

const ENDINGS: [Ending; 7] = [
    Ending::Returns,
    Ending::Fails,
    Ending::Panics,
    Ending::ContinuesAsNew,
    Ending::IsCancelled,
    Ending::IsTerminated,
    Ending::RunsOutOfTime,
];

/// What the child did.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It slept its hour.
    WentOn,
    /// It was asked, and took a minute to put things right.
    WasAsked,
    /// It ended at once.
    WasEnded,
}

fn expected(policy: Policy, ending: Option<Ending>) -> Fate {
    match (policy, ending) {
        (Policy::Abandon, _) => Fate::WentOn,
        (Policy::Cancel, _) | (Policy::Request, Some(Ending::IsTerminated)) => Fate::WasEnded,
        (Policy::Request, _) => Fate::WasAsked,
    }
}

/// Sleeps for an hour; tells when somebody asks it to cancel.
#[duroxide::orchestration]
async fn sleeper(ctx: OrchestrationContext) -> Result<(), String> {
    match ctx.cancellable(ctx.sleep(HOUR)).await {
        Ok(()) => Ok(()),
        Err(_cancelled) => {
            ctx.sleep(SECOND * 60).await;
            ctx.set_custom_status("put things right");
            Ok(())
        }
    }
}

fn open(ctx: &OrchestrationContext, policy: Policy) -> impl Future<Output = ()> {
    let child = ctx
        .child(sleeper, ())
        .id("child")
        .on_parent_close(match policy {
            Policy::Abandon => ParentClose::Abandon,
            Policy::Cancel => ParentClose::Cancel,
            Policy::Request => ParentClose::Request,
        });
    async move { drop(child.await) }
}

/// Has a child open for ten seconds, and ends.
#[duroxide::orchestration]
async fn parent(ctx: OrchestrationContext, how: Option<(Policy, Ending)>) -> Result<(), String> {
    let Some((policy, ending)) = how else {
        return Ok(());
    };
    let child = open(&ctx, policy);
    ctx.sleep(SECOND * 10).await;
    match ending {
        Ending::Returns => Ok(()),
        Ending::Fails => Err("no".to_owned()),
        Ending::Panics => panic!("no"),
        Ending::ContinuesAsNew => ctx.continue_with(parent, None).await,
        Ending::IsCancelled | Ending::IsTerminated | Ending::RunsOutOfTime => {
            child.await;
            Ok(())
        }
    }
}

/// The parent as a later release has it, which does not fit what is recorded.
mod other {
    use super::*;

    #[duroxide::orchestration(name = "parent")]
    pub(super) async fn parent(
        ctx: OrchestrationContext,
        _how: Option<(Policy, Ending)>,
    ) -> Result<(), String> {
        ctx.sleep(SECOND).await;
        Ok(())
    }
}

fn code() -> Handlers {
    Handlers::new().register(sleeper).register(parent)
}

async fn harness() -> Harness {
    let options = RuntimeOptions {
        on_divergence: OnDivergence::Fail,
        ..RuntimeOptions::default()
    };
    Harness::builder()
        .handlers(code())
        .options(options)
        .start()
        .await
}

async fn begin(harness: &Harness, policy: Policy, ending: Ending) {
    let how = Some((policy, ending));
    let start = harness.client().start(parent, how).id("parent");
    let start = match ending {
        Ending::RunsOutOfTime => start.timeout(SECOND * 10),
        _ => start,
    };
    start.await.unwrap();
}

/// What the child does from the end of its parent on.
async fn fate(harness: &mut Harness) -> Fate {
    let ended = harness.wait("parent").await;
    assert!(!matches!(ended, OrchestrationStatus::Running { .. }));
    let before = harness.now_ms();
    let child = harness.wait("child").await;
    let seconds = (harness.now_ms() - before) / 1000;
    match child {
        OrchestrationStatus::Completed { .. } => {
            assert!(seconds > 3500, "{seconds}");
            Fate::WentOn
        }
        OrchestrationStatus::Failed { custom_status, .. } if custom_status.is_some() => {
            assert!((59..62).contains(&seconds), "{seconds}");
            Fate::WasAsked
        }
        OrchestrationStatus::Failed { .. } => {
            assert!(seconds < 2, "{seconds}");
            Fate::WasEnded
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_ending_keeps_to_the_policy_of_an_open_child() {
    duroxide::testing::block_on(async {
        for policy in POLICIES {
            for ending in ENDINGS {
                let mut harness = harness().await;
                begin(&harness, policy, ending).await;
                harness.advance(SECOND * 11).await;
                let client = harness.client();
                match ending {
                    Ending::IsCancelled => client.cancel_instance("parent", "no").await.unwrap(),
                    Ending::IsTerminated => {
                        client.terminate_instance("parent", "no").await.unwrap();
                    }
                    _ => {}
                }
                let fate = fate(&mut harness).await;
                assert_eq!(
                    fate,
                    expected(policy, Some(ending)),
                    "{policy:?}, {ending:?}"
                );
                harness.assert_deterministic("parent").await;
                harness.stop().await;
            }
        }
    });
}

#[test]
fn an_abandoned_child_outlives_a_parent_that_is_terminated_without_its_code() {
    duroxide::testing::block_on(async {
        for policy in POLICIES {
            let mut harness = harness().await;
            begin(&harness, policy, Ending::Returns).await;
            harness.advance(SECOND).await;
            harness.deploy(Handlers::new().register(sleeper)).await;
            let client = harness.client();
            client.terminate_instance("parent", "no").await.unwrap();
            let fate = fate(&mut harness).await;
            assert_eq!(
                fate,
                expected(policy, Some(Ending::IsTerminated)),
                "{policy:?}"
            );
            harness.stop().await;
        }
    });
}

#[test]
fn an_abandoned_child_outlives_a_parent_that_diverges() {
    duroxide::testing::block_on(async {
        for policy in POLICIES {
            let mut harness = harness().await;
            begin(&harness, policy, Ending::Returns).await;
            harness.advance(SECOND).await;
            let code = Handlers::new().register(sleeper).register(other::parent);
            harness.deploy(code).await;
            let fate = fate(&mut harness).await;
            assert_eq!(fate, expected(policy, None), "{policy:?}");
            let history = harness.history("parent").await;
            let asked = history.iter().filter(|event| {
                matches!(
                    event.kind,
                    EventKind::SubOrchestrationCancelRequested { .. }
                )
            });
            let told = usize::from(policy != Policy::Abandon);
            assert_eq!(asked.count(), told, "{policy:?}");
            harness.stop().await;
        }
    });
}
