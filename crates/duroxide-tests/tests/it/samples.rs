//! A recorder of metrics that keeps every sample.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(pub(crate) Arc<Mutex<Vec<Sample>>>);

impl Samples {
    /// Records for the whole process, since the engine works on threads of its own; the test runner gives every test a
    /// process.
    pub(crate) fn install(&self) {
        metrics::set_global_recorder(self.clone()).expect("the first recorder of this process");
    }

    pub(crate) fn of(&self, name: &str) -> Vec<Sample> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|s| s.name == name)
            .cloned()
            .collect()
    }

    /// The sum of a counter's increments with these labels.
    pub(crate) fn total(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &Sample| {
            labels
                .iter()
                .all(|(k, v)| sample.labels.get(*k).is_some_and(|found| found == v))
        };
        self.of(name)
            .iter()
            .filter(|s| fits(s))
            .map(|s| s.value)
            .sum()
    }
}

struct Handle {
    samples: Samples,
    key: Key,
}

impl Handle {
    fn add(&self, value: f64) {
        let labels = self
            .key
            .labels()
            .map(|l| (l.key().to_owned(), l.value().to_owned()))
            .collect();
        self.samples.0.lock().unwrap().push(Sample {
            name: self.key.name().to_owned(),
            labels,
            value,
        });
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.add(value as f64);
    }
}

impl GaugeFn for Handle {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.add(value);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Samples {
    fn handle(&self, key: &Key) -> Arc<Handle> {
        Arc::new(Handle {
            samples: self.clone(),
            key: key.clone(),
        })
    }
}

impl Recorder for Samples {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.handle(key))
    }
}
