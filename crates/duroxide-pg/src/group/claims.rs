//! Claims that wait. In: claims, and news that something may be claimable. Out: which claims to try, and answers.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::claim_turns::Claimed;
use crate::error::Result;

/// How many claims of one kind ride along with one exchange; the others come with the next.
const RIDERS_MAX: usize = 8;
/// A claim that the server asks to look again within so many milliseconds has left something claimable behind.
const SOON_MS: i64 = 5;
/// How much longer than its deadline a claim waits to be tried at all.
const UNTRIED_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// A claim, and who waits for it.
pub(crate) struct Waiting<A, T> {
    pub(crate) ask: Arc<A>,
    /// How many it wants at most.
    pub(crate) max: usize,
    /// Until when it waits; `None` if it does not wait at all.
    pub(crate) deadline: Option<Instant>,
    pub(crate) reply: oneshot::Sender<Result<Vec<T>>>,
}

struct Waiter<A, T> {
    id: u64,
    claim: Waiting<A, T>,
    /// The news it knows; 0 before it was tried.
    knows: u64,
    /// When something becomes claimable for it.
    due: Option<Instant>,
    /// In an exchange now.
    is_out: bool,
}

impl<A, T> Waiter<A, T> {
    /// When it is answered with nothing. One that was never tried gets a little longer.
    fn gives_up_at(&self) -> Option<Instant> {
        let grace = match self.knows {
            0 => UNTRIED_GRACE,
            _ => std::time::Duration::ZERO,
        };
        self.claim.deadline.map(|at| at + grace)
    }

    /// Whether it knows all news and nothing is due for it: for all this process knows, nothing waits for it in the
    /// store.
    fn is_idle(&self, news: u64, now: Instant) -> bool {
        self.knows >= news && self.due.is_none_or(|at| at > now)
    }
}

/// A claim that is tried now.
pub(super) struct Chosen<A> {
    pub(super) id: u64,
    pub(super) ask: Arc<A>,
    /// Whether it was idle until now, and when something becomes claimable for it then.
    pub(super) idle: Option<Option<Instant>>,
    /// Whether its caller waits; if not, it wants to know how things stand now.
    pub(super) waits: bool,
}

/// What a claim that took all there was left behind: the next one like it need not ask for that again.
struct Swept<A> {
    ask: Arc<A>,
    knows: u64,
    due: Option<Instant>,
}

/// A claim that can be compared with another one.
pub(crate) trait Comparable {
    /// Whether what this claim did not find the other one would not find either.
    fn covers(&self, other: &Self) -> bool;
}

impl Comparable for crate::calls::claim_turns::Ask {
    fn covers(&self, other: &Self) -> bool {
        self.covers(other)
    }
}

impl Comparable for crate::calls::claim_work::Ask {
    fn covers(&self, other: &Self) -> bool {
        self.covers(other)
    }
}

/// All claims of one kind.
pub(super) struct Claims<A, T> {
    waiting: Vec<Waiter<A, T>>,
    last_id: u64,
    /// Counts whatever may have made something claimable.
    news: u64,
    swept: Option<Swept<A>>,
}

impl<A, T> Default for Claims<A, T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            last_id: 0,
            news: 1,
            swept: None,
        }
    }
}

impl<A: Comparable, T> Claims<A, T> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn wait(&mut self, claim: Waiting<A, T>) {
        self.last_id += 1;
        // Who does not wait wants to know how things stand now.
        let swept = self
            .swept
            .as_ref()
            .filter(|swept| claim.deadline.is_some() && swept.ask.covers(&claim.ask));
        let (knows, due) = swept.map_or((0, None), |swept| (swept.knows, swept.due));
        self.waiting.push(Waiter {
            id: self.last_id,
            claim,
            knows,
            due,
            is_out: false,
        });
    }

    pub(super) fn news(&mut self) {
        self.news += 1;
    }

    /// When a claim becomes due or gives up. While no exchange can begin, `is_busy`, nothing can be done about what is
    /// due.
    pub(super) fn wakes_at(&self, is_busy: bool) -> Option<Instant> {
        let not_out = self.waiting.iter().filter(|waiter| !waiter.is_out);
        not_out
            .flat_map(|waiter| [waiter.due.filter(|_| !is_busy), waiter.gives_up_at()])
            .flatten()
            .min()
    }

    /// Answers claims that waited long enough, and forgets those whose caller is gone.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |waiter: &mut Waiter<A, T>| {
            let is_answered = waiter.knows > 0 && waiter.claim.deadline.is_none();
            let waited = is_answered || waiter.gives_up_at().is_some_and(|at| at <= now);
            !waiter.is_out && (waited || waiter.claim.reply.is_closed())
        };
        for waiter in self.waiting.extract_if(.., is_over) {
            // A failed send: the caller dropped the claim.
            let _ = waiter.claim.reply.send(Ok(Vec::new()));
        }
    }

    /// The claims to try now; the idle ones too, if the exchange itself brings something.
    pub(super) fn choose(&mut self, now: Instant, brings: bool) -> Vec<Chosen<A>> {
        let news = self.news;
        self.waiting
            .iter_mut()
            .filter(|waiter| !waiter.is_out && (brings || !waiter.is_idle(news, now)))
            .take(RIDERS_MAX)
            .map(|waiter| {
                let idle = waiter.is_idle(news, now).then_some(waiter.due);
                waiter.is_out = true;
                waiter.knows = news;
                waiter.due = None;
                Chosen {
                    id: waiter.id,
                    ask: Arc::clone(&waiter.claim.ask),
                    idle,
                    waits: waiter.claim.deadline.is_some(),
                }
            })
            .collect()
    }

    /// A claim that is idle: it knows all news, and for all this process knows nothing waits for it in the store.
    pub(super) fn idle(&self, now: Instant, permits: impl Fn(&A) -> bool) -> Option<(u64, Arc<A>)> {
        let is_idle = |waiter: &&Waiter<A, T>| {
            let waits = waiter.claim.deadline.is_some() && !waiter.claim.reply.is_closed();
            let is_idle = !waiter.is_out && waiter.is_idle(self.news, now);
            waits && is_idle && permits(&waiter.claim.ask)
        };
        let waiter = self.waiting.iter().find(is_idle)?;
        Some((waiter.id, Arc::clone(&waiter.claim.ask)))
    }

    /// Answers an idle claim. Gives back what its caller no longer takes.
    pub(super) fn hand_out(&mut self, id: u64, found: Vec<T>) -> Vec<T> {
        let Some(place) = self.waiting.iter().position(|waiter| waiter.id == id) else {
            return found;
        };
        let waiter = self.waiting.swap_remove(place);
        // The next one like it knows what this one knew, and is idle: if it had to ask first, nothing could be handed
        // to it early.
        self.swept = Some(Swept {
            ask: Arc::clone(&waiter.claim.ask),
            knows: waiter.knows,
            due: waiter.due,
        });
        match waiter.claim.reply.send(Ok(found)) {
            Err(Ok(found)) => found,
            _ => Vec::new(),
        }
    }

    /// The answer to a claim: what was found is handed out, with nothing found it waits on. `brought`: the exchange was
    /// news itself, and this claim knows it. Returns whether the claim took all there was for it.
    pub(super) fn answer(
        &mut self,
        id: u64,
        claimed: Result<Claimed<T>>,
        brought: bool,
        give_back: impl FnMut(T),
    ) -> bool {
        let Some(place) = self.waiting.iter().position(|waiter| waiter.id == id) else {
            return false;
        };
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                let waiter = self.waiting.swap_remove(place);
                let _ = waiter.claim.reply.send(Err(error));
                return false;
            }
        };
        let due = claimed.due_ms.map(soon);
        if claimed.found.is_empty() {
            let waiter = &mut self.waiting[place];
            waiter.is_out = false;
            waiter.due = due;
            if brought {
                waiter.knows += 1;
            }
            if !claimed.lanes.is_empty() || !claimed.was_tried {
                waiter.knows = 0;
            }
            return false;
        }
        let waiter = self.waiting.swap_remove(place);
        let has_more = claimed.due_ms.is_none_or(|ms| ms <= SOON_MS);
        // It took as many as it wanted, or as much as one claim may take.
        let is_bounded = claimed.due_ms.is_some_and(|ms| ms <= 0);
        let is_full = has_more && (is_bounded || claimed.found.len() >= waiter.claim.max);
        if is_full {
            self.news();
        }
        self.swept = (!is_full && claimed.lanes.is_empty()).then(|| Swept {
            ask: Arc::clone(&waiter.claim.ask),
            knows: waiter.knows + u64::from(brought),
            due,
        });
        if let Err(Ok(found)) = waiter.claim.reply.send(Ok(claimed.found)) {
            found.into_iter().for_each(give_back);
            self.news();
        }
        !is_full && !claimed.others
    }
}

/// A time on the local clock, from a wait that the server computed.
fn soon(ms: i64) -> Instant {
    /// Longer than any claim waits.
    const LONGEST_MS: i64 = 24 * 60 * 60 * 1_000;
    let ms = ms.clamp(0, LONGEST_MS);
    Instant::now() + std::time::Duration::from_millis(ms.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every claim asks for the same.
    struct Anything;

    impl Comparable for Anything {
        fn covers(&self, _other: &Self) -> bool {
            true
        }
    }

    fn claim(now: Instant) -> Waiting<Anything, u32> {
        let (reply, answer) = oneshot::channel();
        // No test looks at the answers, and no caller gives up.
        std::mem::forget(answer);
        Waiting {
            ask: Arc::new(Anything),
            max: 1,
            deadline: Some(now + std::time::Duration::from_secs(60)),
            reply,
        }
    }

    fn idle(claims: &Claims<Anything, u32>, now: Instant) -> Option<u64> {
        claims.idle(now, |_| true).map(|(id, _)| id)
    }

    #[test]
    fn the_claim_after_one_that_was_handed_something_early_is_idle_too() {
        let now = Instant::now();
        let mut claims = Claims::default();
        claims.wait(claim(now));
        assert_eq!(idle(&claims, now), None, "it was not tried yet");
        for chosen in claims.choose(now, false) {
            claims.answer(chosen.id, Ok(Claimed::new()), false, drop);
        }
        let first = idle(&claims, now).expect("it found nothing, and is idle");
        assert_eq!(claims.hand_out(first, vec![7]), [0; 0]);
        claims.wait(claim(now));
        assert!(
            idle(&claims, now).is_some(),
            "for all it knows, nothing waits"
        );
        claims.news();
        assert_eq!(idle(&claims, now), None, "something may have come");
    }

    #[test]
    fn a_claim_that_does_not_wait_is_not_answered_before_it_was_tried() {
        let now = Instant::now();
        let mut claims = Claims::default();
        claims.wait(Waiting {
            deadline: None,
            ..claim(now)
        });
        // The exchange that carried it was undone.
        for chosen in claims.choose(now, false) {
            let untried = Claimed {
                was_tried: false,
                ..Claimed::new()
            };
            claims.answer(chosen.id, Ok(untried), true, drop);
        }
        claims.expire(now);
        let again = claims.choose(now, false);
        assert_eq!(again.len(), 1, "it was answered with nothing");
        for chosen in again {
            claims.answer(chosen.id, Ok(Claimed::new()), false, drop);
        }
        claims.expire(now);
        assert_eq!(claims.choose(now, true).len(), 0, "it has its answer");
    }
}
