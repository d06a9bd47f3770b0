//! Rows, a table with ratios, and a chart.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::Sample;
use crate::system::Subject;

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) subject: Subject,
    pub(crate) workload: String,
    pub(crate) orchestrations: usize,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) us_per_unit: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) cpu_ms_each: f64,
    pub(crate) cpu_percent: f64,
    pub(crate) peak_mb: f64,
    pub(crate) disk_mb: f64,
}

impl Row {
    pub(crate) fn of(subject: Subject, workload: &str, sample: &Sample, folder: &Path) -> Self {
        let count = sample.latencies.count().max(1);
        let units = count as f64 * f64::from(sample.units);
        Self {
            subject,
            workload: workload.to_owned(),
            orchestrations: sample.latencies.count(),
            seconds: sample.seconds,
            per_second: count as f64 / sample.seconds,
            us_per_unit: sample.seconds / units * 1e6,
            p50_ms: sample.latencies.ms(50.0),
            p95_ms: sample.latencies.ms(95.0),
            p99_ms: sample.latencies.ms(99.0),
            max_ms: sample.latencies.ms(100.0),
            cpu_ms_each: sample.cpu_seconds / count as f64 * 1e3,
            cpu_percent: sample.idle_percent.unwrap_or_else(|| sample.cpu_percent()),
            peak_mb: sample.peak_mb,
            disk_mb: folder_mb(folder),
        }
    }
}

fn folder_mb(folder: &Path) -> f64 {
    let bytes: u64 = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    bytes as f64 / 1e6
}

/// The rows as Markdown, with the ratio to the published crate's row of the same workload.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| workload | subject | per s | × | µs per unit | p50 ms | p95 ms | p99 ms | max ms | p50 × | CPU ms each | CPU % | peak MB | disk MB |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let peer = match row.subject {
            Subject::Postgres | Subject::PublishedPostgres => Subject::PublishedPostgres,
            _ => Subject::Published,
        };
        let peer = rows
            .iter()
            .find(|r| r.workload == row.workload && r.subject == peer);
        let ratio = |ours: f64, theirs: f64| format!("{:.1}", ours / theirs);
        let speed = peer.map_or_else(String::new, |p| ratio(row.per_second, p.per_second));
        let delay = peer.map_or_else(String::new, |p| ratio(p.p50_ms, row.p50_ms));
        writeln!(
            out,
            "| {} | {} | {:.1} | {speed} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {delay} | {:.3} | {:.3} | {:.1} | {:.1} |",
            row.workload, row.subject, row.per_second, row.us_per_unit, row.p50_ms, row.p95_ms,
            row.p99_ms, row.max_ms, row.cpu_ms_each, row.cpu_percent, row.peak_mb, row.disk_mb
        )
        .expect("writing to a string");
    }
    out
}

/// A bar chart of throughput, one group per workload, on a logarithmic scale.
pub(crate) fn svg(rows: &[Row]) -> String {
    const BAR: f64 = 16.0;
    const LEFT: f64 = 220.0;
    const WIDTH: f64 = 620.0;
    let top = rows
        .iter()
        .map(|r| r.per_second)
        .fold(1.0, f64::max)
        .log10()
        + 1.0;
    let height = rows.len() as f64 * (BAR + 4.0) + 40.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"10\" y=\"20\">orchestrations per second (logarithmic)</text>\n",
        LEFT + WIDTH + 100.0
    );
    for (place, row) in rows.iter().enumerate() {
        let y = 35.0 + place as f64 * (BAR + 4.0);
        let length = ((row.per_second.max(0.1).log10() + 1.0) / top * WIDTH).max(1.0);
        let colour = match row.subject {
            Subject::SqliteFull => "#2b6cb0",
            Subject::SqliteRelaxed => "#63b3ed",
            Subject::SqliteAlone => "#4299e1",
            Subject::Memory | Subject::MemoryStore => "#68d391",
            Subject::DirectMemory => "#38a169",
            Subject::RedbFull => "#d69e2e",
            Subject::RedbRelaxed => "#ecc94b",
            Subject::Postgres => "#805ad5",
            Subject::Published | Subject::PublishedDefault | Subject::PublishedPostgres => {
                "#a0aec0"
            }
        };
        writeln!(
            out,
            "<text x=\"10\" y=\"{:.0}\">{} {}</text><rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{length:.0}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{:.0}\">{:.1}</text>",
            y + 12.0, row.workload, row.subject, LEFT + length + 6.0, y + 12.0, row.per_second
        )
        .expect("writing to a string");
    }
    out.push_str("</svg>\n");
    out
}
