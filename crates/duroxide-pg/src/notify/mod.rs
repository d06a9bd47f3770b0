//! Wake-ups between processes. In: what an exchange left for others, notices of others. Out: at most one NOTIFY per
//! [`NOTIFY_INTERVAL_MIN`], claims that look again, notified watches.
//!
//! Of many processes that hear a notice three look at once, the others a little later, and so does one that lately
//! found nothing each time it looked (`turns_to_look.rs`). Only those count that claim something: a program that starts
//! instances and waits for them looks at nothing.
//!
//! One connection listens. Each process announces itself every 30 s; one that received no announcement sends no NOTIFY.
//! A notice is `sender|kinds|hashes|turns|work`: `t` turns, `w` activities, `g` an announcement, `n` of one that claims
//! nothing, `*` any instance; hashes stand for instances that ended; turns and work are the keys from which on
//! something is new (`group/marks.rs`). `listening.rs` has the connection that listens.

mod listening;

pub(crate) use listening::listen;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::connection::db::Db;
use crate::news::{ANYWHERE, News, Queues};
use crate::turns_to_look::{self, Luck};
use crate::watch::{Watches, hash};

/// How long notices are collected before they are sent.
const NOTIFY_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How long an announcement lasts.
const ANNOUNCEMENT_LASTS: Duration = Duration::from_secs(100);
/// A process that claimed nothing for so long claims nothing.
const CLAIM_LASTS: Duration = Duration::from_secs(60);
/// How long others may take to reply to the announcement of a process that is new.
const REPLY_PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait before a notice is sent again to a server that is away.
const RESEND_AFTER: Duration = Duration::from_secs(1);
/// How many hashes fit into one notice.
const HASHES_MAX: usize = 400;

/// What one process notifies the others of: collected before it is sent, or read from a NOTIFY.
#[derive(Debug, Default)]
struct Notice {
    news: News,
    /// Whether the sender announces itself.
    announces: bool,
    /// Of a received notice: whether its sender was not known to be there.
    is_new: bool,
    /// Instances that ended.
    hashes: HashSet<u64>,
    /// Whether any instance may have ended.
    is_about_all: bool,
}

impl Notice {
    fn is_empty(&self) -> bool {
        self.news == News::default()
            && !self.announces
            && self.hashes.is_empty()
            && !self.is_about_all
    }
}

#[derive(Debug)]
pub(crate) struct Notifier {
    node: String,
    pending: Mutex<Notice>,
    has_pending: Notify,
    /// No more comes: the store has been closed.
    is_closed: AtomicBool,
    /// Until when others may not have replied to the first announcement of this process.
    unanswered_until: Mutex<Option<Instant>>,
    /// Other processes.
    company: Mutex<HashMap<String, Known>>,
    /// When this process claimed last, in milliseconds after `since`; 0 if it never did.
    claimed_at: AtomicU64,
    luck: Mutex<Luck>,
    since: Instant,
    watches: Arc<Watches>,
}

/// What is known of another process.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Until when it is known to be there.
    until: Instant,
    /// Whether it claims something, for all that is known.
    claims: bool,
}

impl Notifier {
    pub(crate) fn new(watches: Arc<Watches>) -> Arc<Self> {
        let node = Uuid::new_v4().simple().to_string();
        Arc::new(Self {
            node: node[..12].to_owned(),
            pending: Mutex::default(),
            has_pending: Notify::new(),
            is_closed: AtomicBool::new(false),
            unanswered_until: Mutex::default(),
            company: Mutex::default(),
            claimed_at: AtomicU64::new(0),
            luck: Mutex::default(),
            since: Instant::now(),
            watches,
        })
    }

    /// This process claims something. The others hear of it at once: they may have taken it for one that does not.
    pub(crate) fn claims(&self, now: Instant) {
        let ms = u64::try_from(now.duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        let claimed = self.is_claiming(now);
        self.claimed_at.store(ms.max(1), Ordering::Relaxed);
        if !claimed && self.hears() {
            self.add(|notice| notice.announces = true);
        }
    }

    /// Whether this process has claimed lately.
    fn is_claiming(&self, now: Instant) -> bool {
        let at = self.claimed_at.load(Ordering::Relaxed);
        at > 0 && now.duration_since(self.since) < Duration::from_millis(at) + CLAIM_LASTS
    }

    /// Whether notices of other processes arrive.
    pub(crate) fn hears(&self) -> bool {
        self.watches.hears()
    }

    fn has_company(&self) -> bool {
        let now = Instant::now();
        // A process that receives no notices, or no replies yet, does not know whether it is alone.
        if !self.hears() || self.is_unanswered(now) {
            return true;
        }
        let company = self.company.lock().unwrap_or_else(PoisonError::into_inner);
        company.values().any(|known| known.until > now)
    }

    fn is_unanswered(&self, now: Instant) -> bool {
        let until = self.unanswered_until.lock();
        until
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|until| now < until)
    }

    /// Notices arrive from now on; replies to the announcement of this process are on their way.
    fn begin_to_hear(&self) {
        let until = Instant::now() + REPLY_PATIENCE;
        *self
            .unanswered_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.watches.set_hears(true);
        // Notices that were sent before this moment did not arrive.
        self.watches.everything_changed();
    }

    /// No more comes. What waits is still sent.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.has_pending.notify_one();
    }

    /// Notifies other processes of what they may claim, and of instances that ended, which they may watch.
    pub(crate) fn notify(&self, news: News, ended: &[String]) {
        if (news == News::default() && ended.is_empty()) || !self.has_company() {
            return;
        }
        self.add(|notice| {
            notice.news.add(news);
            notice.hashes.extend(ended.iter().map(|id| hash(id)));
            if notice.hashes.len() > HASHES_MAX {
                notice.hashes.clear();
                notice.is_about_all = true;
            }
        });
    }

    fn add(&self, change: impl FnOnce(&mut Notice)) {
        change(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.has_pending.notify_one();
    }

    fn take(&self) -> Notice {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn written(&self, notice: &Notice) -> String {
        let kinds: String = [
            (notice.news.turns.is_some(), 't'),
            (notice.news.work.is_some(), 'w'),
            (notice.announces, 'g'),
            (notice.announces && !self.is_claiming(Instant::now()), 'n'),
            (notice.is_about_all, '*'),
        ]
        .into_iter()
        .filter_map(|(is_so, letter)| is_so.then_some(letter))
        .collect();
        let hashes: Vec<String> = notice
            .hashes
            .iter()
            .map(|hash| format!("{hash:x}"))
            .collect();
        let key = |key: Option<i64>| key.map_or(String::new(), |key| key.to_string());
        let News { turns, work } = notice.news;
        let hashes = hashes.join(",");
        format!(
            "{}|{kinds}|{hashes}|{}|{}",
            self.node,
            key(turns),
            key(work)
        )
    }

    /// A notice of another process came, which says whether that claims something if it is an announcement. Returns
    /// whether the process was not known to be there.
    fn meets(&self, sender: &str, claims: Option<bool>) -> bool {
        let now = Instant::now();
        let mut company = self.company.lock().unwrap_or_else(PoisonError::into_inner);
        company.retain(|_, known| known.until > now);
        let before = company.get(sender).copied();
        let known = Known {
            until: now + ANNOUNCEMENT_LASTS,
            claims: claims.or(before.map(|it| it.claims)).unwrap_or(true),
        };
        company.insert(sender.to_owned(), known);
        before.is_none()
    }

    /// How long this process waits before it looks at what a notice tells of; `None` if it looks at once, and if it
    /// claims nothing: then it costs the server nothing.
    fn waits(&self, notice: &str, backend: i32) -> Option<Duration> {
        let now = Instant::now();
        if !self.is_claiming(now) {
            return None;
        }
        let sender = notice.split('|').next().unwrap_or_default();
        let company = self.company.lock().unwrap_or_else(PoisonError::into_inner);
        let others = company
            .iter()
            .filter(|(node, known)| known.until > now && known.claims && *node != sender);
        let others = others.map(|(node, _)| node.as_str());
        // Applications all send the same text, each from its own connection.
        let order = hash(&format!("{notice}|{backend}"));
        let turn = turns_to_look::wait(&self.node, others, order);
        turn.max(self.luck().noticed(now))
    }

    /// This process looks at what others left.
    fn looks(&self) {
        self.luck().looks();
    }

    /// This process found something to claim.
    pub(crate) fn found(&self) {
        self.luck().found();
    }

    fn luck(&self) -> MutexGuard<'_, Luck> {
        self.luck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, notice: &str) -> bool {
        notice.split('|').next() == Some(self.node.as_str())
    }

    /// Reads a notice; `None` for one of our own. Whatever is not understood counts as a change of everything.
    fn read(&self, notice: &str) -> Option<Notice> {
        let mut parts = notice.split('|');
        let sender = parts.next().unwrap_or_default();
        if sender == self.node {
            return None;
        }
        let kinds = parts.next().unwrap_or("tw*");
        let hashes = parts.next().unwrap_or_default();
        let mut from = |is_so: bool| {
            let key = parts.next().and_then(|key| key.parse().ok());
            is_so.then_some(key.unwrap_or(ANYWHERE))
        };
        let news = News {
            turns: from(kinds.contains('t')),
            work: from(kinds.contains('w')),
        };
        let announces = kinds.contains('g');
        // An older build does not say that it claims nothing.
        let claims = announces.then(|| !kinds.contains('n'));
        let is_new = sender.len() == self.node.len() && self.meets(sender, claims);
        Some(Notice {
            is_new,
            news,
            announces,
            is_about_all: kinds.contains('*'),
            hashes: hashes
                .split(',')
                .filter_map(|hash| u64::from_str_radix(hash, 16).ok())
                .collect(),
        })
    }
}

/// The channel of a schema.
pub(crate) fn channel(schema: &str) -> String {
    format!("duroxide_{schema}").chars().take(63).collect()
}

/// Sends what waits, at most once per pause, until [`Notifier::close`] was called and nothing waits any more.
pub(crate) async fn send(notifier: Arc<Notifier>, db: Arc<Db>, channel: String) {
    use tokio_postgres::types::Type;
    let mut is_closed = false;
    loop {
        // Nothing is announced after the end, so nothing is waited for.
        if !is_closed {
            notifier.has_pending.notified().await;
        }
        // Asked before the notice is taken: what is added before the end is sent.
        is_closed = notifier.is_closed.load(Ordering::Acquire);
        let pending = notifier.take();
        if pending.is_empty() {
            if is_closed {
                return;
            }
            continue;
        }
        let notice = notifier.written(&pending);
        // A notice need not wait for the disk.
        let sent = db
            .rows(
                "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
                &[(&channel, Type::TEXT), (&notice, Type::TEXT)],
            )
            .await;
        if let Err(error) = sent {
            tracing::debug!(target: "duroxide::providers::postgres", %error, "a notice was not sent, it is sent again");
            tokio::time::sleep(RESEND_AFTER).await;
            notifier.add(|notice| {
                notice.news = Queues::BOTH.into();
                notice.is_about_all = true;
            });
        }
        tokio::time::sleep(NOTIFY_INTERVAL_MIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::listening::disconnected;
    use super::*;
    use crate::turns_to_look::Later;

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
        let notice = Notice {
            news: NEWS,
            hashes: HashSet::from([hash("a"), hash("b")]),
            ..Notice::default()
        };
        let written = here.written(&notice);
        assert!(here.read(&written).is_none());
        let received = there.read(&written).unwrap();
        assert_eq!(received.news, NEWS);
        assert_eq!(received.hashes, notice.hashes);
    }

    #[test]
    fn who_is_alone_tells_nothing() {
        let (here, there) = (notifier(), notifier());
        here.notify(Queues::BOTH.into(), &["a".to_owned()]);
        assert!(here.take().is_empty());
        let announcement = there.written(&Notice {
            announces: true,
            ..Notice::default()
        });
        assert!(here.read(&announcement).unwrap().announces);
        here.notify(Queues::BOTH.into(), &["a".to_owned()]);
        assert!(!here.take().is_empty());
    }

    #[test]
    fn who_has_just_begun_to_listen_does_not_know_yet_that_it_is_alone() {
        let here = notifier();
        here.begin_to_hear();
        here.notify(Queues::BOTH.into(), &[]);
        assert!(!here.take().is_empty());
    }

    /// Each announces itself to all.
    fn introduce(all: &[Arc<Notifier>]) {
        let announcement = Notice {
            announces: true,
            ..Notice::default()
        };
        for here in all {
            for there in all {
                here.read(&there.written(&announcement));
            }
        }
    }

    #[test]
    fn processes_that_claim_nothing_take_no_place_before_those_that_do() {
        let all: Vec<_> = (0..12).map(|_| notifier()).collect();
        introduce(&all);
        // Three of them begin to claim, and say so.
        let (claiming, others) = all.split_at(3);
        for one in claiming {
            one.claims(Instant::now());
            let announcement = one.take();
            assert!(announcement.announces);
            for there in &all {
                there.read(&one.written(&announcement));
            }
            one.claims(Instant::now());
            assert!(one.take().is_empty(), "that is known now");
        }
        let application = "sql|t||9223372036854775807|";
        for notice in 0..20 {
            let waits = claiming.iter().map(|it| it.waits(application, notice));
            assert_eq!(waits.filter(Option::is_none).count(), 3, "no wait for them");
        }
        assert!(others.iter().all(|it| it.waits(application, 7).is_none()));
    }

    #[test]
    fn an_announcement_of_an_older_build_counts_as_of_one_that_claims() {
        let here = notifier();
        here.claims(Instant::now());
        for node in 0..40 {
            here.read(&format!("{node:012x}|g|||"));
        }
        let waits = (0..20).map(|backend| here.waits("sql|t|||", backend));
        assert!(waits.flatten().count() > 0, "they have places");
    }

    #[test]
    fn who_has_not_claimed_for_a_minute_says_so() {
        let here = notifier();
        let now = Instant::now();
        here.claims(now);
        assert!(here.is_claiming(now + CLAIM_LASTS / 2));
        assert!(!here.is_claiming(now + CLAIM_LASTS + Duration::from_millis(2)));
    }

    #[test]
    fn what_was_put_off_is_looked_at_when_the_connection_is_lost() {
        let here = notifier();
        let mut later = Later::default();
        later.add(NEWS, Instant::now() + CLAIM_LASTS);
        let heard = std::cell::Cell::new(News::default());
        let is_open = disconnected(&here, &mut later, &|news| {
            heard.set(news);
            true
        });
        assert!(is_open && !here.hears());
        assert_eq!((heard.get(), later.at()), (NEWS, None));
    }

    #[test]
    fn of_many_processes_that_hear_a_notice_three_look_at_once() {
        let all: Vec<_> = (0..12).map(|_| notifier()).collect();
        all.iter().for_each(|it| it.claims(Instant::now()));
        introduce(&all);
        let notice = all[0].written(&Notice {
            news: NEWS,
            ..Notice::default()
        });
        let waits = all[1..].iter().map(|here| here.waits(&notice, 7));
        assert_eq!(waits.filter(Option::is_none).count(), 3);
        let application = "sql|t||9223372036854775807|";
        let waits = all.iter().map(|here| here.waits(application, 7));
        assert_eq!(waits.filter(Option::is_none).count(), 3);
    }

    #[test]
    fn a_notice_written_by_a_person_is_news_of_everything() {
        let received = notifier().read("look!").unwrap();
        assert_eq!(received.news, Queues::BOTH.into());
        assert!(received.is_about_all);
    }

    #[test]
    fn more_ends_than_fit_ring_everybody() {
        let here = notifier();
        here.read("0123456789ab|g|");
        let ended: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        here.notify(News::default(), &ended);
        let notice = here.take();
        assert!(notice.is_about_all && notice.hashes.is_empty());
        assert!(here.written(&notice).len() < 8_000);
    }
}
