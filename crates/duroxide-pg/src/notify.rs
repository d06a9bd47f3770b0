//! Wake-ups between processes. In: what an exchange left for others, notices of others. Out: at most one NOTIFY per
//! [`NOTIFY_INTERVAL_MIN`], claims that look again, notified watches.
//!
//! One connection listens. Each process announces itself every 30 s; a process that has heard no other sends no NOTIFY.
//! A notice is `sender|kinds|marks|turns|work`: `t` turns, `w` activities, `g` an announcement, `*` any instance; marks
//! name instances that ended; turns and work are the keys from which on something is new (`group/marks.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Config};
use uuid::Uuid;

use crate::connection::db::Db;
use crate::connection::tls::Tls;
use crate::queues::{ANYWHERE, News, Queues};
use crate::watch::{Watches, mark};

/// How long notices are collected before they are sent.
const NOTIFY_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How often a process announces the others, and how long a announcement lasts.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(30);
const ANNOUNCEMENT_LASTS: Duration = Duration::from_secs(100);
/// How long a first notice of its own may take to come back.
const ECHO_PATIENCE: Duration = Duration::from_secs(2);
/// How long a server that is away is left alone.
const RESEND_AFTER: Duration = Duration::from_secs(1);
/// How many marks fit into one notice.
const MARKS_MAX: usize = 400;

/// What waits to be told.
#[derive(Debug, Default)]
struct Untold {
    news: News,
    announces: bool,
    /// Of a notice that was heard: whether nothing was heard of its sender for long.
    is_new: bool,
    marks: HashSet<u64>,
    rings_all: bool,
}

impl Untold {
    fn is_empty(&self) -> bool {
        self.news == News::default() && !self.announces && self.marks.is_empty() && !self.rings_all
    }
}

#[derive(Debug)]
pub(crate) struct Notifier {
    node: String,
    untold: Mutex<Untold>,
    has_untold: Notify,
    /// Other processes, and until when they are known to be there.
    company: Mutex<HashMap<String, Instant>>,
    watches: Arc<Watches>,
}

impl Notifier {
    pub(crate) fn new(watches: Arc<Watches>) -> Arc<Self> {
        let node = Uuid::new_v4().simple().to_string();
        Arc::new(Self {
            node: node[..12].to_owned(),
            untold: Mutex::default(),
            has_untold: Notify::new(),
            company: Mutex::default(),
            watches,
        })
    }

    /// Whether other processes are heard.
    pub(crate) fn hears(&self) -> bool {
        self.watches.hears()
    }

    fn has_company(&self) -> bool {
        let company = self.company.lock().unwrap_or_else(PoisonError::into_inner);
        // Who cannot hear does not know whether it is alone.
        !self.hears() || company.values().any(|until| *until > Instant::now())
    }

    /// Something is there for other processes, or instances ended that they may watch.
    pub(crate) fn tell(&self, news: News, ended: &[String]) {
        if (news == News::default() && ended.is_empty()) || !self.has_company() {
            return;
        }
        self.add(|untold| {
            untold.news.add(news);
            untold.marks.extend(ended.iter().map(|id| mark(id)));
            if untold.marks.len() > MARKS_MAX {
                untold.marks.clear();
                untold.rings_all = true;
            }
        });
    }

    fn add(&self, change: impl FnOnce(&mut Untold)) {
        change(&mut self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        self.has_untold.notify_one();
    }

    fn take(&self) -> Untold {
        std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn written(&self, untold: &Untold) -> String {
        let kinds: String = [
            (untold.news.turns.is_some(), 't'),
            (untold.news.work.is_some(), 'w'),
            (untold.announces, 'g'),
            (untold.rings_all, '*'),
        ]
        .into_iter()
        .filter_map(|(is_so, letter)| is_so.then_some(letter))
        .collect();
        let marks: Vec<String> = untold
            .marks
            .iter()
            .map(|mark| format!("{mark:x}"))
            .collect();
        let key = |key: Option<i64>| key.map_or(String::new(), |key| key.to_string());
        let News { turns, work } = untold.news;
        let marks = marks.join(",");
        format!("{}|{kinds}|{marks}|{}|{}", self.node, key(turns), key(work))
    }

    /// Another process is there; whether nothing was heard of it for long.
    fn meets(&self, sender: &str) -> bool {
        let now = Instant::now();
        let mut company = self.company.lock().unwrap_or_else(PoisonError::into_inner);
        company.retain(|_, until| *until > now);
        let until = now + ANNOUNCEMENT_LASTS;
        company.insert(sender.to_owned(), until).is_none()
    }

    fn is_own(&self, notice: &str) -> bool {
        notice.split('|').next() == Some(self.node.as_str())
    }

    /// Reads a notice; `None` for one of our own. Whatever is not understood counts as a change of everything.
    fn read(&self, notice: &str) -> Option<Untold> {
        let mut parts = notice.split('|');
        let sender = parts.next().unwrap_or_default();
        if sender == self.node {
            return None;
        }
        let kinds = parts.next().unwrap_or("tw*");
        let marks = parts.next().unwrap_or_default();
        let mut from = |is_so: bool| {
            let key = parts.next().and_then(|key| key.parse().ok());
            is_so.then_some(key.unwrap_or(ANYWHERE))
        };
        let news = News {
            turns: from(kinds.contains('t')),
            work: from(kinds.contains('w')),
        };
        let is_new = sender.len() == self.node.len() && self.meets(sender);
        Some(Untold {
            is_new,
            news,
            announces: kinds.contains('g'),
            rings_all: kinds.contains('*'),
            marks: marks
                .split(',')
                .filter_map(|mark| u64::from_str_radix(mark, 16).ok())
                .collect(),
        })
    }
}

/// The channel of a schema.
pub(crate) fn channel(schema: &str) -> String {
    format!("duroxide_{schema}").chars().take(63).collect()
}

/// Sends what waits, at most once per pause. Ends with the store.
pub(crate) async fn send(notifier: Arc<Notifier>, db: Arc<Db>, channel: String) {
    use tokio_postgres::types::Type;
    loop {
        notifier.has_untold.notified().await;
        let untold = notifier.take();
        if untold.is_empty() {
            continue;
        }
        let notice = notifier.written(&untold);
        // A notice need not wait for the disk.
        let told = db
            .rows(
                "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
                &[(&channel, Type::TEXT), (&notice, Type::TEXT)],
            )
            .await;
        if let Err(error) = told {
            tracing::debug!(target: "duroxide::providers::postgres", %error, "a notice was not sent, it is sent again");
            tokio::time::sleep(RESEND_AFTER).await;
            notifier.add(|untold| {
                untold.news = Queues::BOTH.into();
                untold.rings_all = true;
            });
        }
        tokio::time::sleep(NOTIFY_INTERVAL_MIN).await;
    }
}

/// Listens, and listens again when the connection is lost. `hear` takes what was heard, and says whether the store is
/// still open. Says on `ready` that it hears, or that it cannot.
pub(crate) async fn listen(
    notifier: Arc<Notifier>,
    config: Config,
    tls: Tls,
    channel: String,
    hear: impl Fn(News) -> bool,
    ready: oneshot::Sender<()>,
) {
    let mut ready = Some(ready);
    let mut has_said = false;
    let mut pause = Duration::from_millis(100);
    loop {
        let begun = Instant::now();
        let why = connected(&notifier, &config, &tls, &channel, &hear, &mut ready).await;
        notifier.watches.set_hears(false);
        notifier.watches.everything_changed();
        drop(ready.take());
        if !hear(News::default()) {
            return;
        }
        if !has_said {
            has_said = true;
            tracing::warn!(target: "duroxide::providers::postgres", why, "cannot listen for other processes; their work is found by polling until that works again");
        }
        if begun.elapsed() > Duration::from_secs(10) {
            pause = Duration::from_millis(100);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// One connection's worth of listening; returns why it ended.
async fn connected(
    notifier: &Arc<Notifier>,
    config: &Config,
    tls: &Tls,
    channel: &str,
    hear: &impl Fn(News) -> bool,
    ready: &mut Option<oneshot::Sender<()>>,
) -> String {
    let (client, mut connection) = match config.connect(tls.clone()).await {
        Ok(connected) => connected,
        Err(error) => return error.to_string(),
    };
    let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
    let listen = format!("LISTEN \"{channel}\"");
    let mut listening = std::pin::pin!(client.batch_execute(&listen));
    let (mut listens, mut hears) = (false, false);
    let mut announce_at = Instant::now();
    // A pooler takes the LISTEN and delivers nothing: only a process that hears its own announcement listens.
    let mut deaf_at = Instant::now() + Duration::from_secs(3_600);
    loop {
        tokio::select! {
            done = &mut listening, if !listens => {
                if let Err(error) = done {
                    return error.to_string();
                }
                listens = true;
                deaf_at = Instant::now() + ECHO_PATIENCE;
            }
            () = tokio::time::sleep_until(announce_at), if listens => {
                announce_at = Instant::now() + ANNOUNCE_EVERY;
                notifier.add(|untold| untold.announces = true);
            }
            () = tokio::time::sleep_until(deaf_at) => {
                return "notices of its own do not come back; is there a pooler in between?".to_owned();
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(notice))) if notifier.is_own(notice.payload()) => {
                    deaf_at = Instant::now() + ANNOUNCEMENT_LASTS;
                    if !hears {
                        hears = true;
                        notifier.watches.set_hears(true);
                        // What happened before this moment was not heard.
                        notifier.watches.everything_changed();
                        hear(Queues::BOTH.into());
                        drop(ready.take());
                    }
                }
                Some(Ok(AsyncMessage::Notification(notice))) => take(notifier, notice.payload(), hear),
                Some(Ok(_)) => {}
                Some(Err(error)) => return error.to_string(),
                None => return "the connection was closed".to_owned(),
            },
        }
        if !hear(News::default()) {
            return "the store is closed".to_owned();
        }
    }
}

fn take(notifier: &Notifier, payload: &str, hear: &impl Fn(News) -> bool) {
    let Some(heard) = notifier.read(payload) else {
        return;
    };
    if heard.announces && heard.is_new {
        // The new listener missed what was sent before it listened.
        notifier.add(|untold| {
            untold.news = Queues::BOTH.into();
            untold.rings_all = true;
        });
    }
    if heard.rings_all {
        notifier.watches.everything_changed()
    } else {
        notifier.watches.heard(&heard.marks)
    }
    hear(heard.news);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWS: News = News {
        turns: Some(-7),
        work: None,
    };

    fn notifier() -> Arc<Notifier> {
        let watches = Arc::new(Watches::default());
        watches.set_hears(true);
        Notifier::new(watches)
    }

    #[test]
    fn a_notice_says_what_was_told_and_ones_own_is_not_heard() {
        let (here, there) = (notifier(), notifier());
        let untold = Untold {
            news: NEWS,
            marks: HashSet::from([mark("a"), mark("b")]),
            ..Untold::default()
        };
        let notice = here.written(&untold);
        assert!(here.read(&notice).is_none());
        let heard = there.read(&notice).unwrap();
        assert_eq!(heard.news, NEWS);
        assert_eq!(heard.marks, untold.marks);
    }

    #[test]
    fn who_is_alone_tells_nothing() {
        let (here, there) = (notifier(), notifier());
        here.tell(Queues::BOTH.into(), &["a".to_owned()]);
        assert!(here.take().is_empty());
        let announcement = there.written(&Untold {
            announces: true,
            ..Untold::default()
        });
        assert!(here.read(&announcement).unwrap().announces);
        here.tell(Queues::BOTH.into(), &["a".to_owned()]);
        assert!(!here.take().is_empty());
    }

    #[test]
    fn a_notice_written_by_a_person_is_news_of_everything() {
        let heard = notifier().read("look!").unwrap();
        assert_eq!(heard.news, Queues::BOTH.into());
        assert!(heard.rings_all);
    }

    #[test]
    fn more_ends_than_fit_ring_everybody() {
        let here = notifier();
        here.read("0123456789ab|g|");
        let ended: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        here.tell(News::default(), &ended);
        let untold = here.take();
        assert!(untold.rings_all && untold.marks.is_empty());
        assert!(here.written(&untold).len() < 8_000);
    }
}
