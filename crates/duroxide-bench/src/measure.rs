//! What is read off a run: times of the clients, processor time and memory of the process.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Latencies in seconds, sorted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Latencies {
    sorted: Vec<f64>,
}

impl Latencies {
    pub(crate) fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self { sorted: seconds }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// A percentile in milliseconds; 0 without any latency.
    pub(crate) fn ms(&self, percent: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return 0.0;
        };
        let place = (percent / 100.0 * last as f64).round() as usize;
        self.sorted[place.min(last)] * 1e3
    }
}

/// One run.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) units: u32,
    started: Instant,
    cpu_before: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) latencies: Latencies,
}

impl Sample {
    pub(crate) fn begin(units: u32) -> Self {
        Self {
            units,
            started: Instant::now(),
            cpu_before: cpu_seconds(),
            seconds: 0.0,
            cpu_seconds: 0.0,
            latencies: Latencies::default(),
        }
    }

    /// The same measurement with latencies taken otherwise.
    pub(crate) fn with_latencies(mut self, latencies: Latencies) -> Self {
        self.latencies = latencies;
        self
    }

    pub(crate) fn finish(mut self, latencies: Latencies) -> Self {
        self.seconds = self.started.elapsed().as_secs_f64();
        self.cpu_seconds = cpu_seconds() - self.cpu_before;
        self.latencies = latencies;
        self
    }
}

/// User and system time of this process so far. Fields 14 and 15 of /proc/self/stat, in ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

/// Peak memory of this process in MB.
pub(crate) fn peak_mb() -> f64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kb| kb / 1024.0)
}
