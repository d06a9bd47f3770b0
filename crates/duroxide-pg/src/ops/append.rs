//! Appends events without a lease. In: an execution and its events. Out: nothing; a duplicate is refused.

use duroxide_core::event::Event;

use crate::codec;
use crate::connection::call::Call;
use crate::error::Result;
use crate::news::Queues;
use crate::store::Store;
use crate::watch::InstanceChange;

impl Store {
    pub(crate) async fn append(
        &self,
        instance: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<()> {
        let id = codec::key("the instance id", instance)?;
        let events = codec::events(instance, events)?;
        let call = Call::new("append_events")
            .int(self.expected())
            .text(&id)
            .int(codec::number("execution", execution_id)?)
            .ints(events.iter().map(|event| event.id))
            .texts(events.iter().map(|event| event.kind))
            .texts(events.iter().map(|event| event.json.as_str()));
        self.db.transact(&[call]).await?;
        self.look(Queues::TURNS, &[id]);
        self.watches.announce(instance, InstanceChange::Unknown);
        Ok(())
    }
}
