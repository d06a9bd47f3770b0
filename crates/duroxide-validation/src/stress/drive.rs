//! Starts instances for a while, never too many at once, waits for each, and looks at what they left.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duroxide_core::ErrorDetails;
use duroxide_core::provider::Provider;
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{
    Client, OrchestrationRegistry, OrchestrationStatus, Runtime, RuntimeOptions,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Audit, Latencies, StressReport, StressTestConfig, StressTestResult};
use crate::waiting::ended;

/// What each instance of a run does.
#[async_trait]
pub(crate) trait Workload: Send + Sync + 'static {
    /// Handler to start.
    fn orchestration(&self) -> &'static str;

    /// Its input.
    fn input(&self) -> String;

    /// Sends an instance what it needs to end.
    async fn feed(&self, client: &Client, instance: &str) {
        let _ = (client, instance);
    }

    /// What it must answer, if that is known.
    fn expected(&self) -> Option<String> {
        None
    }
}

/// The default orchestration.
struct FanOut {
    tasks: usize,
}

#[async_trait]
impl Workload for FanOut {
    fn orchestration(&self) -> &'static str {
        "FanoutOrchestration"
    }

    fn input(&self) -> String {
        format!("{{\"task_count\":{}}}", self.tasks)
    }
}

/// Runs `FanoutOrchestration` of these registries under load.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_stress_test(
    config: StressTestConfig,
    provider: Arc<dyn Provider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
) -> Result<StressTestResult, Box<dyn Error>> {
    let report = measure_stress_test(config, provider, activities, orchestrations).await?;
    Ok(report.result)
}

/// As [`run_stress_test`], with latencies and audit.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn measure_stress_test(
    config: StressTestConfig,
    provider: Arc<dyn Provider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
) -> Result<StressReport, Box<dyn Error>> {
    let workload = FanOut {
        tasks: config.tasks_per_instance,
    };
    drive(&config, provider, activities, orchestrations, workload).await
}

/// How one instance went.
struct Ended {
    instance: String,
    status: Option<OrchestrationStatus>,
    took: Duration,
}

pub(crate) async fn drive<W: Workload>(
    config: &StressTestConfig,
    store: Arc<dyn Provider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    workload: W,
) -> Result<StressReport, Box<dyn Error>> {
    let options = RuntimeOptions {
        orchestration_concurrency: config.orch_concurrency,
        worker_concurrency: config.worker_concurrency,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(Arc::clone(&store), activities, orchestrations, options).await;
    let began = Instant::now();
    let workload = Arc::new(workload);
    let ended = launch(config, &store, &workload).await;
    let total_time = began.elapsed();
    runtime.shutdown(None).await;

    let report = summarise(&store, &*workload, &ended, total_time).await?;
    if report.audit.violations.is_empty() {
        Ok(report)
    } else {
        Err(report.audit.violations.join("\n").into())
    }
}

async fn launch<W: Workload>(
    config: &StressTestConfig,
    store: &Arc<dyn Provider>,
    workload: &Arc<W>,
) -> Vec<Ended> {
    let slots = Arc::new(Semaphore::new(config.max_concurrent.max(1)));
    let patience = Duration::from_secs(config.wait_timeout_secs);
    let until = Instant::now() + Duration::from_secs(config.duration_secs);
    let mut running = JoinSet::new();
    let mut number = 0;
    while Instant::now() < until {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        let (store, workload) = (Arc::clone(store), Arc::clone(workload));
        let instance = format!("stress-test-{number}");
        number += 1;
        running.spawn(async move {
            let ended = run_one(store, &*workload, instance, patience).await;
            drop(slot);
            ended
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = running.join_next().await {
        all.push(ended.expect("an instance is awaited without panicking"));
    }
    all
}

async fn run_one<W: Workload>(
    store: Arc<dyn Provider>,
    workload: &W,
    instance: String,
    patience: Duration,
) -> Ended {
    let client = Client::new(Arc::clone(&store));
    let began = Instant::now();
    let name = workload.orchestration();
    let started = client
        .start_orchestration(instance.as_str(), name, workload.input())
        .await;
    let status = match started {
        Ok(()) => {
            workload.feed(&client, &instance).await;
            ended(&client, &*store, &instance, patience).await
        }
        Err(_) => None,
    };
    Ended {
        instance,
        status,
        took: began.elapsed(),
    }
}

async fn summarise<W: Workload>(
    store: &Arc<dyn Provider>,
    workload: &W,
    ended: &[Ended],
    total_time: Duration,
) -> Result<StressReport, Box<dyn Error>> {
    let mut audit = Audit::default();
    let mut latencies = Vec::new();
    let mut failed = [0_usize; 3];
    for one in ended {
        match &one.status {
            Some(OrchestrationStatus::Completed { output, .. }) => {
                latencies.push(one.took);
                audit.add(&one.instance, &store.read(&one.instance).await?);
                if let Some(expected) = workload.expected() {
                    audit.expect_output(&one.instance, &expected, output);
                }
            }
            Some(OrchestrationStatus::Failed { details, .. }) => failed[class(details)] += 1,
            _ => failed[0] += 1,
        }
    }
    let completed = latencies.len();
    let latencies = Latencies::of(latencies);
    let seconds = total_time.as_secs_f64().max(f64::EPSILON);
    let result = StressTestResult {
        launched: ended.len(),
        completed,
        failed: failed.iter().sum(),
        failed_infrastructure: failed[0],
        failed_configuration: failed[1],
        failed_application: failed[2],
        total_time,
        orch_throughput: completed as f64 / seconds,
        activity_throughput: audit.activities as f64 / seconds,
        avg_latency_ms: latencies.mean.as_secs_f64() * 1_000.0,
    };
    Ok(StressReport {
        result,
        latencies,
        audit,
    })
}

/// 0 for the store and the engine, poison included; 1 for code that does not fit; 2 for the code itself.
fn class(details: &ErrorDetails) -> usize {
    match details {
        ErrorDetails::Infrastructure { .. } | ErrorDetails::Poison { .. } => 0,
        ErrorDetails::Configuration { .. } => 1,
        ErrorDetails::Application { .. } => 2,
    }
}
