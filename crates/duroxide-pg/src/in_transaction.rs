//! Your transaction, our start. In: an open transaction of the application. Out: messages that exist once it commits.

use duroxide_core::provider::rules::Refusal;
use tokio_postgres::Transaction;

use crate::connection::schema::Schema;
use crate::error::PgError;

type Result<T> = std::result::Result<T, PgError>;

/// Sends to orchestrations inside a transaction of the application: what it sends commits or rolls back with the rest.
///
/// The role of the transaction needs `USAGE` of the schema and `EXECUTE` of the functions that carry these names.
///
/// ```no_run
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tx = client.transaction().await?;
/// tx.execute("INSERT INTO orders (id) VALUES ('order-7')", &[]).await?;
/// duroxide_pg::Within::new(&tx, "duroxide")?
///     .start_orchestration("order-7", "ProcessOrder", r#"{"total": 12}"#)
///     .await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Within<'t, 'c> {
    tx: &'t Transaction<'c>,
    schema: Schema,
}

impl std::fmt::Debug for Within<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Within")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl<'t, 'c> Within<'t, 'c> {
    /// Sends to the orchestrations of this schema within this transaction.
    ///
    /// # Errors
    ///
    /// If the name of the schema is no plain identifier.
    pub fn new(tx: &'t Transaction<'c>, schema_name: &str) -> std::result::Result<Self, PgError> {
        Ok(Self {
            tx,
            schema: Schema::parse(schema_name)?,
        })
    }

    /// Starts an orchestration; the version is chosen by the node that runs it.
    ///
    /// # Errors
    ///
    /// If no client may send it (the transaction has failed then), or the database refuses.
    pub async fn start_orchestration(&self, instance: &str, name: &str, input: &str) -> Result<()> {
        self.call("start_orchestration", &[instance, name, input])
            .await
    }

    /// Starts a version of an orchestration.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn start_orchestration_versioned(
        &self,
        instance: &str,
        name: &str,
        version: &str,
        input: &str,
    ) -> Result<()> {
        let args = [instance, name, input, version];
        self.call("start_orchestration", &args).await
    }

    /// Raises an event for a wait of an instance.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn raise_event(&self, instance: &str, event_name: &str, data: &str) -> Result<()> {
        self.call("raise_event", &[instance, event_name, data])
            .await
    }

    /// Puts a message into a queue of an instance.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn enqueue_event(&self, instance: &str, queue: &str, data: &str) -> Result<()> {
        self.call("enqueue_event", &[instance, queue, data]).await
    }

    /// Asks an instance to cancel.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn cancel_instance(&self, instance: &str, reason: &str) -> Result<()> {
        self.call("cancel_instance", &[instance, reason]).await
    }

    async fn call(&self, function: &str, args: &[&str]) -> Result<()> {
        use tokio_postgres::types::{ToSql, Type};
        let places: Vec<String> = (1..=args.len()).map(|place| format!("${place}")).collect();
        let sql = format!(
            "SELECT {}.{function}({})",
            self.schema.quoted(),
            places.join(", ")
        );
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = args
            .iter()
            .map(|text| (text as &(dyn ToSql + Sync), Type::TEXT))
            .collect();
        let sent = self.tx.query_typed(&sql, &typed).await;
        sent.map(drop).map_err(of_application)
    }
}

/// What the checks of the functions refuse (`0024_checks.sql`) is a refusal of the contract, as from a client.
fn of_application(error: tokio_postgres::Error) -> PgError {
    let refused = error.as_db_error().and_then(|said| {
        let (what, why) = said.message().rsplit_once(" cannot be stored: ")?;
        let refusal = Refusal::unstorable(what, why);
        (said.detail() == Some(refusal.code())).then_some(refusal)
    });
    refused.map_or_else(|| error.into(), PgError::from)
}
