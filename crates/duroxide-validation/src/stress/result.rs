//! What came of it.

use std::fmt::Write as _;
use std::time::Duration;

use super::Audit;

/// Counts and rates of one run.
#[derive(Debug, Clone)]
pub struct StressTestResult {
    /// Instances started.
    pub launched: usize,
    /// Instances that completed.
    pub completed: usize,
    /// Instances that failed, or did not end in time.
    pub failed: usize,
    /// Failures of the store or the engine among them, poison and instances that did not end included.
    pub failed_infrastructure: usize,
    /// Failures among them because code and history did not fit.
    pub failed_configuration: usize,
    /// Failures of the code among them.
    pub failed_application: usize,
    /// Time from the first start to the last end.
    pub total_time: Duration,
    /// Instances completed per second.
    pub orch_throughput: f64,
    /// Activities completed per second.
    pub activity_throughput: f64,
    /// Mean time from start to end of completed instances, in milliseconds.
    pub avg_latency_ms: f64,
}

impl StressTestResult {
    /// Completed instances in per cent of started ones; 0 if none was started.
    #[must_use]
    pub fn success_rate(&self) -> f64 {
        if self.launched == 0 {
            return 0.0;
        }
        100.0 * self.completed as f64 / self.launched as f64
    }
}

/// Times from start to end of completed instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Half of the instances were faster.
    pub p50: Duration,
    /// 95 of 100 were faster.
    pub p95: Duration,
    /// 99 of 100 were faster.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
    /// The mean.
    pub mean: Duration,
}

impl Latencies {
    /// The latencies of these measurements.
    #[must_use]
    pub fn of(mut measured: Vec<Duration>) -> Self {
        measured.sort_unstable();
        let Some(max) = measured.last().copied() else {
            return Self::default();
        };
        // The smallest measurement that at least this share does not exceed.
        let at = |percent: usize| measured[(measured.len() * percent).div_ceil(100) - 1];
        let count = u32::try_from(measured.len()).unwrap_or(u32::MAX);
        Self {
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max,
            mean: measured.iter().sum::<Duration>() / count,
        }
    }
}

/// Everything about one run.
#[derive(Debug, Clone)]
pub struct StressReport {
    /// Counts and rates.
    pub result: StressTestResult,
    /// True latencies.
    pub latencies: Latencies,
    /// Findings of the audit of the histories.
    pub audit: Audit,
}

/// Prints results side by side: provider, configuration, result.
pub fn print_comparison_table(results: &[(String, String, StressTestResult)]) {
    println!("{}", comparison_table(results));
}

fn comparison_table(results: &[(String, String, StressTestResult)]) -> String {
    let mut text = format!(
        "{:<20} {:<24} {:>9} {:>9} {:>7} {:>9} {:>10} {:>10} {:>12}\n",
        "provider",
        "config",
        "launched",
        "completed",
        "failed",
        "success",
        "orch/s",
        "act/s",
        "latency ms"
    );
    for (provider, config, result) in results {
        let _ = writeln!(
            text,
            "{provider:<20} {config:<24} {:>9} {:>9} {:>7} {:>8.1}% {:>10.1} {:>10.1} {:>12.1}",
            result.launched,
            result.completed,
            result.failed,
            result.success_rate(),
            result.orch_throughput,
            result.activity_throughput,
            result.avg_latency_ms
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measurements() {
        let measured = (1..=100).map(Duration::from_millis).collect();
        let latencies = Latencies::of(measured);
        assert_eq!(latencies.p50, Duration::from_millis(50));
        assert_eq!(latencies.p95, Duration::from_millis(95));
        assert_eq!(latencies.p99, Duration::from_millis(99));
        assert_eq!(latencies.max, Duration::from_millis(100));
        assert_eq!(Latencies::of(Vec::new()), Latencies::default());
        let one = Latencies::of(vec![Duration::from_secs(1)]);
        assert_eq!((one.p50, one.p99), (one.max, one.max));
    }
}
