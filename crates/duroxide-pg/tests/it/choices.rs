//! Options that cannot work.

use std::time::Duration;

use duroxide_pg::{PostgresOptions, PostgresProvider, ProviderConfig};

/// Nothing listens there: what is refused is refused before anything is asked.
const NOWHERE: &str = "postgres://app@127.0.0.1:1/orders?connect_timeout=1";

#[tokio::test]
async fn options_that_cannot_work_are_refused_when_a_store_opens() {
    let default = PostgresOptions::default;
    for options in [
        PostgresOptions {
            pool_size: 0,
            ..default()
        },
        PostgresOptions {
            application_name: "x".repeat(64),
            ..default()
        },
        PostgresOptions {
            statement_timeout: Some(Duration::from_micros(500)),
            ..default()
        },
        PostgresOptions {
            poll_interval: Duration::ZERO,
            ..default()
        },
    ] {
        let config = ProviderConfig {
            options,
            ..ProviderConfig::url(NOWHERE)
        };
        let refused = PostgresProvider::new_with_config(config).await.unwrap_err();
        assert_eq!(refused.code(), "D0814", "{refused}");
    }
}
