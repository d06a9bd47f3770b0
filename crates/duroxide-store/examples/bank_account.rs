//! An event-sourced bank account with an outbox, on the generic store alone. Nothing here is about Duroxide.
//!
//! A command is decided against the account's events and committed together with the notice it owes to the customer:
//! either both are stored or neither. A courier takes notices from the outbox under a lease; one that crashes before it
//! completes the notice leaves it for the next.

use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    Batch, Claim, EventStore, Guard, NewMessage, Operation, Queue, Record, StoreError,
};

const OUTBOX: Queue = Queue::single("outbox");
const LEASE_MS: u64 = 30_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Opened,
    Deposited(u64),
    Withdrawn(u64),
}

impl Event {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Opened => "opened".to_owned(),
            Self::Deposited(amount) => format!("deposited {amount}"),
            Self::Withdrawn(amount) => format!("withdrawn {amount}"),
        }
        .into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = || StoreError::Corrupt(format!("not an event: {bytes:?}"));
        let text = std::str::from_utf8(bytes).map_err(|_| corrupt())?;
        let amount = |text: &str| text.parse().map_err(|_| corrupt());
        match text.split_once(' ') {
            None if text == "opened" => Ok(Self::Opened),
            Some(("deposited", text)) => Ok(Self::Deposited(amount(text)?)),
            Some(("withdrawn", text)) => Ok(Self::Withdrawn(amount(text)?)),
            _ => Err(corrupt()),
        }
    }
}

/// An account as its events tell it.
#[derive(Debug, Default)]
struct Account {
    version: u64,
    open: bool,
    balance: u64,
}

impl Account {
    async fn load(store: &dyn EventStore, id: &str) -> Result<Self, StoreError> {
        let mut account = Self::default();
        for record in store.events(id, 1, 0).await? {
            account.apply(&Event::decode(&record.data)?);
            account.version = record.number;
        }
        Ok(account)
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened => self.open = true,
            Event::Deposited(amount) => self.balance += amount,
            Event::Withdrawn(amount) => self.balance -= amount,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the account is open already")]
    AlreadyOpen,
    #[error("the account is not open")]
    NotOpen,
    #[error("there is only {balance}")]
    NotEnough { balance: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn decide(account: &Account, command: &Event) -> Result<String, Refused> {
    match command {
        Event::Opened if account.open => Err(Refused::AlreadyOpen),
        Event::Opened => Ok("welcome".to_owned()),
        _ if !account.open => Err(Refused::NotOpen),
        Event::Withdrawn(amount) if *amount > account.balance => Err(Refused::NotEnough {
            balance: account.balance,
        }),
        Event::Deposited(amount) => Ok(format!("{amount} came in")),
        Event::Withdrawn(amount) => Ok(format!("{amount} went out")),
    }
}

/// Event and notice in one batch. The number of the event is the optimistic lock: if somebody else was faster, it is
/// taken, nothing is stored, and the command is decided again.
async fn handle(store: &dyn EventStore, id: &str, command: Event) -> Result<u64, Refused> {
    loop {
        let mut account = Account::load(store, id).await?;
        let notice = decide(&account, &command)?;
        account.apply(&command);
        let record = Record {
            number: account.version + 1,
            data: command.encode(),
        };
        let batch = Batch::of([
            Operation::Append {
                entity: id.to_owned(),
                partition: 1,
                events: vec![record],
            },
            Operation::Put {
                scope: "balances".to_owned(),
                key: id.to_owned(),
                value: account.balance.to_string().into_bytes(),
            },
            Operation::Enqueue {
                queue: OUTBOX,
                message: NewMessage::new(id, notice),
            },
        ]);
        match store.commit(batch).await {
            Ok(_) => return Ok(account.balance),
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Delivers one notice. What was sent is remembered in the commit that completes it, under its lease.
async fn deliver(store: &dyn EventStore) -> Result<Option<String>, StoreError> {
    let Some(claimed) = store.claim(Claim::one(OUTBOX, LEASE_MS)).await?.pop() else {
        return Ok(None);
    };
    let message = &claimed.messages[0];
    let text = String::from_utf8_lossy(&message.payload);
    let line = format!(
        "to {}: {text} (attempt {})",
        message.group, message.attempts
    );
    let sent = Operation::Put {
        scope: format!("sent/{}", message.group),
        key: format!("{:08}", message.id),
        value: message.payload.clone(),
    };
    let lease = claimed.token;
    let done = Operation::Complete {
        lease: lease.clone(),
    };
    let batch = Batch::of([sent, done]).guarded_by(Guard::Lease(lease));
    store.commit(batch).await?;
    Ok(Some(line))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), StoreError> {
    let clock = duroxide_store::ManualClock::new();
    let store = MemoryStore::with_clock(&clock);

    for command in [
        Event::Deposited(5),
        Event::Opened,
        Event::Deposited(100),
        Event::Withdrawn(30),
        Event::Withdrawn(500),
        Event::Opened,
    ] {
        match handle(&store, "anna", command.clone()).await {
            Ok(balance) => println!("{command:?}: balance {balance}"),
            Err(Refused::Store(error)) => return Err(error),
            Err(refused) => println!("{command:?}: refused, {refused}"),
        }
    }

    let (one, two) = tokio::join!(
        handle(&store, "anna", Event::Deposited(1)),
        handle(&store, "anna", Event::Deposited(2)),
    );
    println!("two at once: {}", one.is_ok() && two.is_ok());

    // A courier takes a notice and is never seen again.
    store_claims_and_forgets(&store).await?;
    while let Some(line) = deliver(&store).await? {
        println!("{line}");
    }
    println!("... the lost courier's lease runs out");
    clock.advance(std::time::Duration::from_millis(LEASE_MS));
    while let Some(line) = deliver(&store).await? {
        println!("{line}");
    }
    let account = Account::load(&store, "anna").await?;
    println!("{} events, balance {}", account.version, account.balance);
    Ok(())
}

async fn store_claims_and_forgets(store: &dyn EventStore) -> Result<(), StoreError> {
    store.claim(Claim::one(OUTBOX, LEASE_MS)).await.map(drop)
}
