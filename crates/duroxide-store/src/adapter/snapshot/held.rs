//! Which ids the store holds anything of: instances by id, then whatever names one in a queue.

use std::collections::BTreeSet;

use duroxide_core::provider::HeldIds;

use crate::EventStore;
use crate::adapter::error::{Error, Result};
use crate::adapter::names::{DEAD, INSTANCES, TURNS, WORK};
use crate::atomic::Query;
use crate::message::Queue;

/// Where a page begins: after an instance, or after a message of a queue.
enum Position {
    Instance(String),
    Message(Place, u64),
}

/// The queues, in the order in which they are looked through.
#[derive(Clone, Copy)]
enum Place {
    Turns,
    Work,
    Dead,
}

impl Place {
    fn queue(self) -> Queue {
        match self {
            Self::Turns => TURNS,
            Self::Work => WORK,
            Self::Dead => DEAD,
        }
    }

    fn next(self) -> Option<Self> {
        match self {
            Self::Turns => Some(Self::Work),
            Self::Work => Some(Self::Dead),
            Self::Dead => None,
        }
    }
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        let (place, rest) = text.split_at_checked(1)?;
        let message = |place| Some(Self::Message(place, rest.parse().ok()?));
        match place {
            "i" => Some(Self::Instance(rest.to_owned())),
            "t" => message(Place::Turns),
            "w" => message(Place::Work),
            "d" => message(Place::Dead),
            _ => None,
        }
    }

    fn cursor(&self) -> String {
        match self {
            Self::Instance(id) => format!("i{id}"),
            Self::Message(Place::Turns, number) => format!("t{number}"),
            Self::Message(Place::Work, number) => format!("w{number}"),
            Self::Message(Place::Dead, number) => format!("d{number}"),
        }
    }
}

pub(in crate::adapter) async fn held<S: EventStore>(
    store: &S,
    after: Option<&str>,
    limit: u32,
) -> Result<HeldIds> {
    let limit = limit.max(1) as usize;
    let after = match after {
        None => None,
        Some(text) => Some(Position::parse(text).ok_or_else(|| {
            Error::undecodable(format!("the position `{text}`"), "no page returned it")
        })?),
    };
    let (place, number) = match after {
        None => return instances(store, None, limit).await,
        Some(Position::Instance(id)) => return instances(store, Some(id), limit).await,
        Some(Position::Message(place, number)) => (place, number),
    };
    let page = Query::Messages {
        queue: place.queue(),
        group: None,
        after: number,
        limit,
    };
    let messages = store.query_one(page).await?.into_messages()?;
    let next = match messages.last() {
        Some(last) if messages.len() == limit => Some(Position::Message(place, last.id)),
        _ => place.next().map(|place| Position::Message(place, 0)),
    };
    let ids: BTreeSet<String> = messages.into_iter().map(|message| message.group).collect();
    Ok(HeldIds {
        ids: ids.into_iter().collect(),
        next: next.map(|next| next.cursor()),
    })
}

async fn instances<S: EventStore>(
    store: &S,
    after: Option<String>,
    limit: usize,
) -> Result<HeldIds> {
    let page = Query::Entries {
        scope: INSTANCES.to_owned(),
        after,
        limit,
    };
    let entries = store.query_one(page).await?.into_entries()?;
    let next = match entries.last() {
        Some(last) if entries.len() == limit => Position::Instance(last.key.clone()),
        _ => Position::Message(Place::Turns, 0),
    };
    Ok(HeldIds {
        ids: entries.into_iter().map(|entry| entry.key).collect(),
        next: Some(next.cursor()),
    })
}
