//! A program in one value: its store, its code, its runtime. In: where the store is and what to run. Out: a running
//! app.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use duroxide_core::provider::Provider;

use crate::client::Client;
use crate::handlers::{Handlers, Register};
use crate::observability::SpanSink;
use crate::options::{InvalidOptions, RuntimeOptions};
use crate::registry::{ActivityRegistry, OrchestrationRegistry};
use crate::runtime::{Host, Runtime};

type Opened = Result<Arc<dyn Provider>, Box<dyn Error + Send + Sync>>;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// Why an app did not start.
///
/// `Debug` shows the message and the code: a `main` that returns the error prints that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The store did not open.
    #[error("the store does not open: {0}")]
    Store(#[source] Box<dyn Error + Send + Sync>),
    /// The code is not complete, or contradicts itself.
    #[error("{0}")]
    Handlers(String),
    /// The options cannot work.
    #[error(transparent)]
    Options(#[from] InvalidOptions),
}

impl AppError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(_) => "D0403",
            Self::Handlers(_) => "D0404",
            Self::Options(options) => options.code(),
        }
    }
}

impl fmt::Debug for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({}, see docs/errors.md)", self.code())
    }
}

/// Collects what an [`App`] is made of.
#[must_use = "nothing happens before `start` is awaited"]
pub struct AppBuilder {
    opening: Opening,
    handlers: Handlers,
    options: RuntimeOptions,
    host: Host,
}

impl AppBuilder {
    /// An app on a store that is open already.
    pub fn on(store: Arc<dyn Provider>) -> Self {
        Self::opening(async move { Ok(store) })
    }

    /// An app on a store that is opened when the app starts.
    pub fn opening(opening: impl Future<Output = Opened> + Send + 'static) -> Self {
        Self {
            opening: Box::pin(opening),
            handlers: Handlers::new(),
            options: RuntimeOptions::default(),
            host: Host::default(),
        }
    }

    /// Gives a value to all activities that ask for its type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.handlers = self.handlers.state(value);
        self
    }

    /// Gives a value that the program shares with its activities; also as `Arc<dyn Mailer>`, for `State<dyn Mailer>`.
    pub fn shared_state<T: Send + Sync + ?Sized + 'static>(mut self, value: Arc<T>) -> Self {
        self.handlers = self.handlers.shared_state(value);
        self
    }

    /// Adds an activity or an orchestration.
    pub fn register<Kind>(mut self, code: impl Register<Kind>) -> Self {
        self.handlers = self.handlers.register(code);
        self
    }

    /// Adds the code and the state of a collection, which tests can use too.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = self.handlers.and(handlers);
        self
    }

    /// Adds activities that are registered in the published way.
    pub fn activities(mut self, activities: ActivityRegistry) -> Self {
        self.handlers = self.handlers.activities(activities);
        self
    }

    /// Adds orchestrations that are registered in the published way.
    pub fn orchestrations(mut self, orchestrations: OrchestrationRegistry) -> Self {
        self.handlers = self.handlers.orchestrations(orchestrations);
        self
    }

    /// How the runtime behaves.
    pub fn options(mut self, options: RuntimeOptions) -> Self {
        self.options = options;
        self
    }

    /// Takes the spans of turns, activities and executions, once they are committed; see
    /// [`SpanSink`](crate::observability::SpanSink). Instances that are started without a trace get one.
    pub fn spans(mut self, sink: impl SpanSink + 'static) -> Self {
        self.host.spans = Some(Arc::new(sink));
        self
    }

    /// Opens the store and runs the code.
    ///
    /// # Errors
    ///
    /// When the store does not open, the code is not complete, or the options cannot work. The code is checked first.
    pub async fn start(self) -> Result<App, AppError> {
        let (activities, orchestrations) = self.handlers.build().map_err(AppError::Handlers)?;
        let store = self.opening.await.map_err(AppError::Store)?;
        let runtime =
            Runtime::try_start(store, &activities, orchestrations, self.options, self.host)?;
        Ok(App { runtime })
    }

    /// Opens the store for a client alone: nothing runs here.
    ///
    /// # Errors
    ///
    /// When the store does not open.
    pub async fn client(self) -> Result<Client, AppError> {
        let store = self.opening.await.map_err(AppError::Store)?;
        Ok(Client::new(store))
    }
}

impl fmt::Debug for AppBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppBuilder")
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// A program that runs: its store, its code and its runtime.
///
/// It runs until [`shutdown`](Self::shutdown), or until the async runtime that it was started in ends. Dropping it
/// stops nothing.
#[derive(Debug, Clone)]
#[must_use = "it runs on; keep it, and end it with `shutdown`"]
pub struct App {
    runtime: Arc<Runtime>,
}

impl App {
    /// A client on the app's store.
    #[must_use]
    pub fn client(&self) -> Client {
        self.runtime.client()
    }

    /// The runtime.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Stops the app; see [`Runtime::shutdown`]. What runs has a second to finish, and goes on after the next start.
    pub async fn shutdown(self) {
        self.runtime.shutdown(None).await;
    }
}
