//! Runs cases: all of them with a report, or one as a test.
//!
//! In: a factory. Out: what passed, failed and was skipped, each with its reason. A case fails by panicking.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;

use crate::doors::ByClaims;
use crate::probe::missing;
use crate::{Capability, Case, ProviderFactory, cases};

/// No case takes this long, with the longest leases on the slowest store; a provider that hangs does.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The behaviour was shown.
    Passed,
    /// It was not.
    Failed(String),
    /// Something the case needs is not there.
    Skipped(String),
}

/// One line of a [`Report`].
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// Outcome of the case.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// How a provider did.
#[derive(Debug, Clone)]
pub struct Report {
    /// One entry per case, in the order of the list.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Cases that passed.
    pub fn passed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(|o| o.verdict == Verdict::Passed)
    }

    /// Cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        let failed = |o: &&Outcome| matches!(o.verdict, Verdict::Failed(_));
        self.outcomes.iter().filter(failed)
    }

    /// Cases that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Outcome> {
        let skipped = |o: &&Outcome| matches!(o.verdict, Verdict::Skipped(_));
        self.outcomes.iter().filter(skipped)
    }

    /// `Ok` if nothing failed, otherwise the failures as text.
    ///
    /// # Errors
    ///
    /// The table of this report, if any case failed.
    pub fn into_result(self) -> Result<Self, String> {
        if self.failed().next().is_some() {
            return Err(self.table());
        }
        Ok(self)
    }

    /// Panics with the table if any case failed.
    ///
    /// # Panics
    ///
    /// If any case failed.
    pub fn assert_ok(&self) {
        assert!(self.failed().next().is_none(), "{}", self.table());
    }

    /// Per group what passed, failed and was skipped; then each failure and each skipped case with its reason.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::from("group                   passed  failed skipped\n");
        for module in self.modules() {
            let of = |o: &&Outcome| o.case.module == module;
            let _ = writeln!(
                text,
                "{module:<24}{:>6}{:>8}{:>8}",
                self.passed().filter(of).count(),
                self.failed().filter(of).count(),
                self.skipped().filter(of).count()
            );
        }
        let _ = writeln!(
            text,
            "{:<24}{:>6}{:>8}{:>8}",
            "all",
            self.passed().count(),
            self.failed().count(),
            self.skipped().count()
        );
        for outcome in &self.outcomes {
            if let Some(line) = outcome.remark() {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    fn modules(&self) -> Vec<&'static str> {
        let mut modules: Vec<_> = self.outcomes.iter().map(|o| o.case.module).collect();
        modules.dedup();
        modules
    }
}

impl Outcome {
    fn remark(&self) -> Option<String> {
        let path = self.case.path();
        match &self.verdict {
            Verdict::Passed => None,
            Verdict::Failed(why) => Some(format!("FAILED  {path}: {why}")),
            Verdict::Skipped(why) => Some(format!("skipped {path}: {why}")),
        }
    }

    fn line(&self) -> String {
        self.remark().unwrap_or_else(|| {
            format!(
                "passed  {} ({} ms)",
                self.case.path(),
                self.took.as_millis()
            )
        })
    }
}

/// Runs every case, printing a line for each and the table at the end.
///
/// With a factory that can [`fork`](ProviderFactory::fork), cases run side by side.
pub async fn run_all_validations<F: ProviderFactory + 'static>(factory: F) -> Report {
    let report = run_cases(Arc::new(factory), cases(), |outcome| {
        println!("{}", outcome.line());
    })
    .await;
    println!("{}", report.table());
    report
}

/// Runs these cases and tells of each one as it ends.
pub async fn run_cases(
    factory: Arc<dyn ProviderFactory>,
    cases: Vec<Case>,
    mut progress: impl FnMut(&Outcome),
) -> Report {
    let side_by_side = match factory.fork() {
        Some(_) => 4 * std::thread::available_parallelism().map_or(2, usize::from),
        None => 1,
    };
    let runs = cases.into_iter().enumerate().map(|(position, case)| {
        let factory = factory.fork().unwrap_or_else(|| Arc::clone(&factory));
        async move { (position, run_case(case, factory).await) }
    });
    let mut runs = stream::iter(runs).buffer_unordered(side_by_side);
    let mut outcomes = Vec::new();
    while let Some((position, outcome)) = runs.next().await {
        progress(&outcome);
        outcomes.push((position, outcome));
    }
    outcomes.sort_by_key(|(position, _)| *position);
    Report {
        outcomes: outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
    }
}

/// Runs one case in a task of its own, so that its panic ends nothing else.
pub async fn run_case(case: Case, factory: Arc<dyn ProviderFactory>) -> Outcome {
    let began = Instant::now();
    let attempt = tokio::spawn(async move {
        match missing(&*factory, case.requires).await {
            Some(need) if factory.must_offer().contains(&need) => {
                Verdict::Failed(format!("{}, though it must", need.without_it()))
            }
            Some(need) => Verdict::Skipped(need.without_it().to_owned()),
            None => {
                (case.run)(factory).await;
                Verdict::Passed
            }
        }
    });
    let abort = attempt.abort_handle();
    let verdict = match tokio::time::timeout(CASE_TIMEOUT, attempt).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => Verdict::Failed(panic_text(error)),
        Err(_) => {
            abort.abort();
            Verdict::Failed(format!("still not done after {CASE_TIMEOUT:?}"))
        }
    };
    Outcome {
        case,
        verdict,
        took: began.elapsed(),
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "the case was cancelled".to_owned();
    };
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the case panicked without a message".to_owned())
}

/// Runs one case as the body of a test, through both doors of the store; what [`conformance!`](crate::conformance)
/// expands to.
///
/// # Panics
///
/// If the case fails, or if there is no such case.
#[doc(hidden)]
pub fn run_as_test<F: ProviderFactory + 'static>(module: &str, name: &str, make: impl Fn() -> F) {
    let case = cases()
        .into_iter()
        .find(|case| case.module == module && case.name == name)
        .expect("the macro names cases of the list");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        judge("by fetching", run_case(case, Arc::new(make())).await);
        let claims = [Capability::BatchedTurns, Capability::BatchedWork];
        // A store that claims one at a time does so by fetching.
        if missing(&make(), &claims).await.is_none() {
            let factory = Arc::new(ByClaims::of(Arc::new(make()), case.name));
            judge("by claiming", run_case(case, factory).await);
        }
    });
}

fn judge(door: &str, outcome: Outcome) {
    match outcome.verdict {
        Verdict::Passed => {}
        Verdict::Skipped(why) => println!("skipped: {why}"),
        Verdict::Failed(why) => panic!("{door}: {why}"),
    }
}
