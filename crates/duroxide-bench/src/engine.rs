//! The handlers of all workloads, written once and compiled against either crate: ours here, the published one in the
//! package `peer` beside this one.

/// Makes a module with the registries and a driver for one crate.
macro_rules! engine {
    ($module:ident, $krate:ident) => {
        pub(crate) mod $module {
            use std::sync::Arc;
            use std::time::{Duration, SystemTime, UNIX_EPOCH};

            use $krate::providers::Provider;
            use $krate::runtime::Runtime;
            use $krate::runtime::registry::ActivityRegistry;
            use $krate::{
                ActivityContext, Client, OrchestrationContext, OrchestrationRegistry,
                OrchestrationStatus, RuntimeOptions,
            };

            type Outcome = Result<String, String>;

            async fn greet(_ctx: ActivityContext, name: String) -> Outcome {
                Ok(format!("Hello, {name}!"))
            }

            async fn hello(ctx: OrchestrationContext, input: String) -> Outcome {
                ctx.schedule_activity("greet", input).await
            }

            async fn chain(ctx: OrchestrationContext, input: String) -> Outcome {
                let steps: u32 = input.parse().map_err(|e| format!("{e}"))?;
                let mut last = String::new();
                for step in 0..steps {
                    last = ctx.schedule_activity("greet", step.to_string()).await?;
                }
                Ok(last)
            }

            async fn fanout(ctx: OrchestrationContext, input: String) -> Outcome {
                let width: u32 = input.parse().map_err(|e| format!("{e}"))?;
                let all = (0..width)
                    .map(|n| ctx.schedule_activity("greet", n.to_string()))
                    .collect();
                let done = ctx
                    .join(all)
                    .await
                    .into_iter()
                    .filter(Result::is_ok)
                    .count();
                Ok(done.to_string())
            }

            async fn subs(ctx: OrchestrationContext, input: String) -> Outcome {
                let width: u32 = input.parse().map_err(|e| format!("{e}"))?;
                let all = (0..width)
                    .map(|n| ctx.schedule_sub_orchestration("hello", n.to_string()))
                    .collect();
                let done = ctx
                    .join(all)
                    .await
                    .into_iter()
                    .filter(Result::is_ok)
                    .count();
                Ok(done.to_string())
            }

            async fn again(ctx: OrchestrationContext, input: String) -> Outcome {
                let left: u32 = input.parse().map_err(|e| format!("{e}"))?;
                if left == 0 {
                    return Ok("done".into());
                }
                ctx.continue_as_new((left - 1).to_string()).await
            }

            /// Input: due time in ms since the epoch. Output: how late it resumed, in microseconds.
            async fn timer(ctx: OrchestrationContext, input: String) -> Outcome {
                let due: u64 = input.parse().map_err(|e| format!("{e}"))?;
                let now = millis();
                ctx.schedule_timer(Duration::from_millis(due.saturating_sub(now)))
                    .await;
                let late = SystemTime::now()
                    .duration_since(UNIX_EPOCH + Duration::from_millis(due))
                    .map_or(0, |d| d.as_micros());
                Ok(late.to_string())
            }

            async fn wait_event(ctx: OrchestrationContext, _input: String) -> Outcome {
                Ok(ctx.schedule_wait("go").await)
            }

            async fn park(ctx: OrchestrationContext, _input: String) -> Outcome {
                Ok(ctx.schedule_wait("never").await)
            }

            fn millis() -> u64 {
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |d| d.as_millis() as u64)
            }

            fn registries() -> (ActivityRegistry, OrchestrationRegistry) {
                let activities = ActivityRegistry::builder().register("greet", greet).build();
                let orchestrations = OrchestrationRegistry::builder()
                    .register("hello", hello)
                    .register("chain", chain)
                    .register("fanout", fanout)
                    .register("subs", subs)
                    .register("again", again)
                    .register("timer", timer)
                    .register("wait_event", wait_event)
                    .register("park", park)
                    .build();
                (activities, orchestrations)
            }

            pub(crate) struct Engine {
                runtime: Arc<Runtime>,
                client: Client,
            }

            impl Engine {
                pub(crate) async fn start(
                    store: Arc<dyn Provider>,
                    options: RuntimeOptions,
                ) -> Self {
                    let (activities, orchestrations) = registries();
                    let runtime = Runtime::start_with_options(
                        store.clone(),
                        activities,
                        orchestrations,
                        options,
                    )
                    .await;
                    Self {
                        runtime,
                        client: Client::new(store),
                    }
                }
            }

            impl crate::system::System for Engine {
                async fn begin(&self, id: String, name: &'static str, input: String) {
                    self.client
                        .start_orchestration(id, name, input)
                        .await
                        .expect("start");
                }

                async fn result(&self, id: &str) -> String {
                    let patience = Duration::from_secs(600);
                    match self.client.wait_for_orchestration(id, patience).await {
                        Ok(OrchestrationStatus::Completed { output, .. }) => output,
                        other => panic!("{id}: {other:?}"),
                    }
                }

                async fn raise(&self, id: &str) {
                    self.client
                        .raise_event(id, "go", "now")
                        .await
                        .expect("raise");
                }

                async fn is_running(&self, id: &str) -> bool {
                    matches!(
                        self.client.get_orchestration_status(id).await,
                        Ok(OrchestrationStatus::Running { .. })
                    )
                }

                async fn depth(&self) -> usize {
                    self.client
                        .get_queue_depths()
                        .await
                        .map_or(0, |d| d.orchestrator_queue + d.worker_queue)
                }

                async fn stop(self) {
                    self.runtime.shutdown(Some(5_000)).await;
                }
            }
        }
    };
}

pub(crate) use engine;
