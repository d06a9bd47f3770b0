//! The spans in which authors' code runs, and silence while it is replaying.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use duroxide::runtime::observability::SilentWhileReplaying;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::support::{World, activities, orchestrations, output, quick};

type Fields = BTreeMap<String, String>;

/// A line of a library that knows nothing of Duroxide, with the span that it was logged in.
#[derive(Debug, Clone)]
struct Line {
    message: String,
    span: Option<(String, Fields)>,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    fn all(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    fn said(&self, message: &str) -> Vec<Line> {
        let all = self.all().into_iter();
        all.filter(|line| line.message == message).collect()
    }
}

#[derive(Default)]
struct Reading(Fields);

impl Visit for Reading {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut read = Reading::default();
        attributes.record(&mut read);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(read.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if event.metadata().target() != "library" {
            return;
        }
        let mut read = Reading::default();
        event.record(&mut read);
        let span = ctx.lookup_current().map(|span| {
            let fields = span.extensions().get::<Fields>().cloned();
            (span.name().to_owned(), fields.unwrap_or_default())
        });
        let message = read.0.remove("message").unwrap_or_default();
        self.0.lock().unwrap().push(Line { message, span });
    }
}

async fn chatty(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    tracing::info!(target: "library", "before");
    let said = ctx.schedule_activity("say", "it").await?;
    tracing::info!(target: "library", "between");
    ctx.schedule_activity("say", said).await?;
    tracing::info!(target: "library", "after");
    Ok("done".into())
}

/// A world that keeps nothing in memory, so that every turn replays.
async fn world() -> World {
    let say = |_: ActivityContext, said: String| async move {
        tracing::info!(target: "library", "saying");
        Ok(said)
    };
    let options = RuntimeOptions {
        sticky_instances_max: 0,
        ..quick()
    };
    World::with_options(
        activities().register("say", say).build(),
        orchestrations().register("chatty", chatty).build(),
        options,
    )
    .await
}

#[tokio::test]
async fn every_line_of_code_says_which_turn_or_activity_it_belongs_to() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = world().await;
    assert_eq!(output(&world.run("c", "chatty", "").await), "done");
    world.stop().await;
    let is = |line: &Line, name: &str, expected: &[(&str, &str)]| {
        let (span, fields) = line.span.as_ref().expect("it was logged in a span");
        assert_eq!(span, name);
        for (field, value) in expected {
            let found = fields.get(*field).map(String::as_str);
            assert_eq!(found, Some(*value), "{field} of {line:?}");
        }
    };
    let common = [
        ("duroxide.instance.id", "c"),
        ("duroxide.execution.id", "1"),
        ("duroxide.attempt", "1"),
    ];
    for line in lines.said("between") {
        is(&line, "duroxide.turn", &common);
        is(
            &line,
            "duroxide.turn",
            &[("duroxide.orchestration.name", "chatty")],
        );
    }
    assert_eq!(lines.said("saying").len(), 2);
    for line in lines.said("saying") {
        is(&line, "duroxide.activity", &common);
        is(
            &line,
            "duroxide.activity",
            &[("duroxide.activity.name", "say")],
        );
    }
    assert_eq!(
        lines.said("before").len(),
        3,
        "without the layer every replay is heard"
    );
}

#[tokio::test]
async fn plain_lines_of_an_orchestration_are_silent_while_it_is_replaying() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry()
        .with(SilentWhileReplaying)
        .with(lines.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = world().await;
    assert_eq!(output(&world.run("c", "chatty", "").await), "done");
    world.stop().await;
    let said: Vec<_> = lines.all().into_iter().map(|line| line.message).collect();
    assert_eq!(said, ["before", "saying", "between", "saying", "after"]);
    assert!(lines.all().iter().all(|line| line.span.is_some()));
}
