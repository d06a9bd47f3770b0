//! The connection that listens. In: notices of other processes and of this one. Out: what may have become claimable, at
//! once or a little later; whether notices arrive at all. Never sends anything: its announcements go with the next
//! notice.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Config};

use super::{ANNOUNCEMENT_LASTS, Notifier};
use crate::connection::tls::Tls;
use crate::news::{News, Queues};
use crate::turns_to_look::Later;

/// How often a process announces itself to the others.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(30);
/// How long a first notice of its own may take to come back.
const ECHO_PATIENCE: Duration = Duration::from_secs(2);

/// Listens, and listens again when the connection is lost. `hear` takes the news, and returns whether the store is
/// still open. Drops `ready` once notices arrive, or it is clear that they do not.
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
    let mut later = Later::default();
    loop {
        let begun = Instant::now();
        let heard = Heard {
            hear: &hear,
            ready: &mut ready,
            later: &mut later,
        };
        let why = connected(&notifier, &config, &tls, &channel, heard).await;
        drop(ready.take());
        if !disconnected(&notifier, &mut later, &hear) {
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

/// No notices arrive any more. What this process was going to look at later it looks at now. Returns whether the store
/// is still open.
pub(super) fn disconnected(
    notifier: &Notifier,
    later: &mut Later,
    hear: &impl Fn(News) -> bool,
) -> bool {
    notifier.watches.set_hears(false);
    notifier.watches.everything_changed();
    hear(later.take())
}

/// Where what is heard goes.
struct Heard<'l, H> {
    /// As in [`listen`].
    hear: &'l H,
    ready: &'l mut Option<oneshot::Sender<()>>,
    /// What this process looks at later.
    later: &'l mut Later,
}

/// One connection's worth of listening; returns why it ended.
async fn connected<H: Fn(News) -> bool>(
    notifier: &Arc<Notifier>,
    config: &Config,
    tls: &Tls,
    channel: &str,
    heard: Heard<'_, H>,
) -> String {
    let Heard { hear, ready, later } = heard;
    let (client, mut connection) = match config.connect(tls.clone()).await {
        Ok(connected) => connected,
        Err(error) => return error.to_string(),
    };
    let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
    let listen = format!("LISTEN \"{channel}\"");
    let mut listening = std::pin::pin!(client.batch_execute(&listen));
    let (mut listens, mut hears) = (false, false);
    let mut announce_at = Instant::now();
    // A pooler takes the LISTEN and delivers nothing: only a process that receives its own announcement listens.
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
                notifier.add(|notice| notice.announces = true);
            }
            () = until(later.at()) => {
                notifier.looks();
                hear(later.take());
            }
            () = tokio::time::sleep_until(deaf_at) => {
                return "notices of its own do not come back; is there a pooler in between?".to_owned();
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(notice))) if notifier.is_own(notice.payload()) => {
                    deaf_at = Instant::now() + ANNOUNCEMENT_LASTS;
                    if !hears {
                        hears = true;
                        notifier.begin_to_hear();
                        hear(Queues::BOTH.into());
                        drop(ready.take());
                    }
                }
                Some(Ok(AsyncMessage::Notification(notice))) => {
                    let news = take(notifier, notice.payload());
                    if news != News::default() {
                        match notifier.waits(notice.payload(), notice.process_id()) {
                            Some(wait) => later.add(news, Instant::now() + wait),
                            None => {
                                notifier.looks();
                                hear(news);
                            }
                        }
                    }
                }
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

/// Waits for this time; for ever if there is none.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Takes over what a notice tells of other processes and of instances that ended. Returns what may have become
/// claimable.
fn take(notifier: &Notifier, payload: &str) -> News {
    let Some(received) = notifier.read(payload) else {
        return News::default();
    };
    if received.announces && received.is_new {
        // The new listener missed what was sent before it listened.
        notifier.add(|notice| {
            notice.news = Queues::BOTH.into();
            notice.is_about_all = true;
        });
    }
    if received.is_about_all {
        notifier.watches.everything_changed()
    } else {
        notifier.watches.may_have_ended(&received.hashes)
    }
    received.news
}
