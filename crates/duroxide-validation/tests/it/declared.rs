//! What a factory declares has to be there: a lost ability fails the cases that need it, and none of them is skipped.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{InstanceWatch, Provider};
use duroxide_runtime::observability::{Layer, Layered};
use duroxide_validation::{
    Capability, Case, ProviderFactory, Report, TestClock, Verdict, cases, run_cases,
};

use crate::reference::Memory;

/// The reference factory, which declares everything, without one of its abilities.
struct Without {
    reference: Memory,
    lost: Capability,
}

impl Without {
    fn has(&self, ability: Capability) -> bool {
        self.lost != ability
    }
}

/// A store that nobody can watch.
struct Unwatched;

impl Layer for Unwatched {
    fn watch_instance(
        &self,
        _next: &dyn Provider,
        _instance: &str,
    ) -> Option<Box<dyn InstanceWatch>> {
        None
    }
}

#[async_trait]
impl ProviderFactory for Without {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let store = self.reference.create_provider().await;
        if self.has(Capability::Watch) {
            return store;
        }
        Arc::new(Layered::around(store, Unwatched))
    }

    fn supports(&self, capability: Capability) -> bool {
        // A clock that is lost takes the ability to set it back with it, whatever the factory says.
        let is_of_clock = capability == Capability::ClockSetBack;
        (is_of_clock || self.has(capability)) && self.reference.supports(capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        self.reference.must_offer()
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        let clock = self.reference.clock();
        clock.filter(|_| self.has(Capability::ClockSetBack))
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        let grace = self.reference.unknown_instance_grace();
        grace.filter(|_| self.has(Capability::UnknownInstanceGrace))
    }
}

/// How the cases go that need an ability, once it is lost.
async fn once_lost(lost: Capability) -> Report {
    let need = |case: &Case| case.requires.contains(&lost);
    let needing: Vec<Case> = cases().into_iter().filter(need).collect();
    assert!(!needing.is_empty(), "no case needs {lost:?}");
    let factory = Without {
        reference: Memory::default(),
        lost,
    };
    run_cases(Arc::new(factory), needing, |_| {}).await
}

fn all_name_the_loss(report: &Report) -> bool {
    report
        .outcomes
        .iter()
        .all(|outcome| match &outcome.verdict {
            Verdict::Failed(why) => why.ends_with("though it must"),
            Verdict::Passed | Verdict::Skipped(_) => false,
        })
}

#[tokio::test]
async fn an_ability_of_the_factory_that_is_declared_and_lost_fails_every_case_that_needs_it() {
    for lost in Capability::OF_FACTORIES {
        let report = once_lost(*lost).await;
        assert!(all_name_the_loss(&report), "{lost:?}\n{}", report.table());
    }
}

#[tokio::test]
async fn an_ability_of_the_store_that_is_declared_and_lost_fails_every_case_that_needs_it() {
    let report = once_lost(Capability::Watch).await;
    assert!(all_name_the_loss(&report), "{}", report.table());
}

#[test]
fn what_can_be_declared_is_everything_but_the_contradiction_of_waiting() {
    let declared = Capability::all_but(&[]);
    for case in cases() {
        for need in case.requires {
            let is_known = declared.contains(need) || *need == Capability::ShortPoll;
            assert!(is_known, "{} needs {need:?}", case.path());
        }
    }
}
