//! Following what an instance publishes. In: an id. Out: each view that is another one than the last, until the
//! instance ends. Woken by the store where it can wake, asking again where it cannot; never reads a history.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use duroxide_core::{Payload, codec, view_key};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};

use super::{Client, ClientError};
use crate::OrchestrationStatus;

/// Longest pause between two looks at a store that cannot wake.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Client {
    /// Follows what an instance publishes with [`publish`](duroxide_core::OrchestrationContext::publish): first the
    /// view that is there, then every change, over continue-as-new, until the instance ends or is deleted.
    ///
    /// A view is the latest state and no log: a slow follower misses views in between, and always sees the last one.
    /// The same view published again is no change. An instance that does not exist yet is waited for. If its id is
    /// deleted and started again between two looks, the views of the new instance follow.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), duroxide::ClientError> {
    /// let mut changes = client.changes::<u64>("tour-7");
    /// while let Some(stops) = changes.next().await {
    ///     println!("{} stops are done", stops?);
    /// }
    /// println!("the tour is over");
    /// # Ok(())
    /// # }
    /// ```
    pub fn changes<T: Payload>(&self, instance: impl Into<String>) -> Changes<T> {
        let following = Following {
            client: self.clone(),
            instance: instance.into(),
            seen: Seen::default(),
        };
        Changes {
            views: stream::unfold(Some(following), step).fuse().boxed(),
        }
    }
}

/// The views of an instance, one after the other; see [`Client::changes`]. It is a stream as well, of the kind that
/// `futures` and web frameworks know.
#[must_use = "nothing is looked at before it is awaited"]
pub struct Changes<T> {
    views: BoxStream<'static, Result<T, ClientError>>,
}

impl<T> Changes<T> {
    /// The next view, once there is another one; `None` when the instance has ended and its last view was returned. May
    /// be dropped and called again, in a `select!` for instance: nothing is lost.
    ///
    /// # Errors
    ///
    /// In the item: `InvalidInput` when a view is not of this type, the next one may be; what the store says if it is
    /// permanent, which is the last item. Other errors of the store are outwaited.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        self.views.next().await
    }
}

impl<T> Stream for Changes<T> {
    type Item = Result<T, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.views.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

struct Following {
    client: Client,
    instance: String,
    seen: Seen,
}

/// What was seen of an instance so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    /// Whether it was there.
    exists: bool,
    /// The last view that was returned.
    view: Option<String>,
}

/// What a look found that is news.
enum News {
    View(String),
    Over,
}

async fn step<T: Payload>(
    following: Option<Following>,
) -> Option<(Result<T, ClientError>, Option<Following>)> {
    let mut following = following?;
    match following.news().await {
        Ok(News::View(text)) => {
            let view = codec::decode(&text).map_err(|error| {
                ClientError::invalid(format!("the view does not decode: {error}"))
            });
            following.seen.view = Some(text);
            Some((view, Some(following)))
        }
        Ok(News::Over) => None,
        // The next look would fail alike.
        Err(error) => Some((Err(error), None)),
    }
}

impl Following {
    async fn news(&mut self) -> Result<News, ClientError> {
        loop {
            let (client, id, seen) = (&self.client, &self.instance, &self.seen);
            let look = || look(client, id, seen);
            let found = client.wait_until(id, Duration::MAX, LONGEST_PAUSE, look);
            match found.await? {
                Found::Begun => self.seen.exists = true,
                Found::News(news) => {
                    self.seen.exists = true;
                    return Ok(news);
                }
            }
        }
    }
}

enum Found {
    /// It exists now, which is to be remembered.
    Begun,
    News(News),
}

/// Looks at an instance; `None` if there is nothing new.
async fn look(client: &Client, id: &str, seen: &Seen) -> Result<Option<Found>, ClientError> {
    // In this order: what is committed with the end is seen.
    let status = client.get_orchestration_status(id).await?;
    let view = client.get_kv_value(id, view_key()).await?;
    Ok(match (status, view) {
        (OrchestrationStatus::NotFound, _) => seen.exists.then_some(Found::News(News::Over)),
        (_, Some(text)) if seen.view.as_ref() != Some(&text) => Some(Found::News(News::View(text))),
        (status, _) if status.is_terminal() => Some(Found::News(News::Over)),
        _ => (!seen.exists).then_some(Found::Begun),
    })
}
