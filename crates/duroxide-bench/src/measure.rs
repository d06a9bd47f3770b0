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

    /// All of them together.
    pub(crate) fn total_seconds(&self) -> f64 {
        self.sorted.iter().sum()
    }

    /// These and others.
    #[allow(dead_code, reason = "only our half measures in turns")]
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.sorted.extend(others.sorted);
        Self::of(self.sorted)
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
    /// Share of one core in a quiet window, for workloads that have one.
    pub(crate) idle_percent: Option<f64>,
    pub(crate) peak_mb: f64,
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
            idle_percent: None,
            peak_mb: 0.0,
        }
    }

    /// Processor time in percent of one core.
    pub(crate) fn cpu_percent(&self) -> f64 {
        self.cpu_seconds / self.seconds * 100.0
    }

    /// This run and another one, as if the second had followed the first at once.
    #[allow(dead_code, reason = "only our half measures in turns")]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.latencies = self.latencies.and(other.latencies);
        self.peak_mb = self.peak_mb.max(other.peak_mb);
        self
    }

    pub(crate) fn finish(mut self, latencies: Latencies) -> Self {
        self.seconds = self.started.elapsed().as_secs_f64();
        self.cpu_seconds = cpu_seconds() - self.cpu_before;
        self.latencies = latencies;
        self.peak_mb = peak_mb();
        self
    }
}

/// Processor time of this process so far, ended threads included, to the nanosecond.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
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
