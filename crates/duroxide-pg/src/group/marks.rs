//! Where claims begin: for each lane of a queue the key below which nothing is left. In: what claims saw, and news.
//! Out: a key for each lane. This text is the rule; the functions of the schema link here.
//!
//! # Why
//!
//! A queue loses rows as fast as it gets them. While another session keeps a transaction open, nothing can be vacuumed,
//! and a claim that begins at the beginning of a lane walks past every row that was deleted since: minutes of them.
//! Then claims begin at the mark of their lane.
//!
//! Marks cost something, a tenth of what a busy process gets done. So claims begin at the beginning, and find the lanes
//! by themselves, until [`LONG_MIN`] of them in a row have walked long until they found the first row of each lane
//! (`long_walk` of the schema says what is long). They begin at marks from then on, until one that begins at the
//! beginning walks no longer.
//!
//! # The rule
//!
//! Rows have keys: activities their numbers, which a sequence gives, inboxes the time at which they are ready, which
//! the server's clock gives. A mark may be above no row that is there, whether it can be claimed or not: rows that are
//! leased, delayed or locked hold it back, so leases that run out and rows that become visible are always above it.
//! After a claim the mark of a lane is the smallest of
//!
//! - the smallest key that the claim saw in the lane,
//! - the *base* of its exchange: the greatest key that was known to be in use when the exchange was launched. What is
//!   written later has greater keys, and what has smaller ones was written by a transaction that began before;
//! - the smallest key of all news that came since the exchange was launched.
//!
//! A row below a mark can only come from a transaction that the claim did not see because it was not committed yet.
//! That transaction is news when it is: an exchange of this process lowers the marks to its own base when it ends,
//! however it ends, and one of another process sends its base along with the NOTIFY. What is changed in any other way
//! (an operator resumes, restores or requeues) is news about all keys.
//!
//! # What goes wrong
//!
//! News get lost: a process dies between its commit and its NOTIFY, or writes rows that nothing was said about because
//! it leased them itself; the server fails over and its sequence or clock begins a little earlier. So every
//! [`WHOLE_EVERY`] one claim begins at the beginning of every lane, and marks are taken from it alone. It costs at most
//! a twentieth of the time: if it took long, the next one comes [`APART`] times as long later, but after
//! [`WHOLE_EVERY_MAX`] in any case. A caller that does not wait relies on no news: its claim begins at the beginning,
//! too.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::news::ANYWHERE;

/// After how many long walks in a row claims begin at marks. One alone may have been kept waiting for a processor.
const LONG_MIN: u32 = 4;
/// How often a claim begins at the beginning, while the others begin at marks.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
const WHOLE_EVERY_MAX: Duration = Duration::from_secs(60);
/// How many times as long as it took there is at least until the next one.
const APART: u32 = 20;
/// With more lanes than this a claim finds them by itself, and begins at the beginning.
const LANES_MAX: usize = 64;

/// Lanes in the order of their bytes, and where a claim begins in each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Beginnings {
    pub(super) lanes: Vec<String>,
    pub(super) from: Vec<i64>,
}

impl Beginnings {
    pub(super) fn as_slices(&self) -> (&[String], &[i64]) {
        (&self.lanes, &self.from)
    }
}

/// What one claim saw of its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The smallest key of each lane that has rows, in any order; `None` if the claim did not say: one that takes
    /// everything is not asked.
    pub(super) first: Option<&'a [(String, i64)]>,
    /// Whether it took long to find them.
    pub(super) walked_long: bool,
}

/// An exchange that was launched and has not ended.
#[derive(Debug)]
struct Launched {
    exchange: u64,
    at: Instant,
    base: i64,
    /// The smallest key of the news since.
    heard: i64,
    /// The lanes its claims look at, if there are any; and whether from the beginning.
    lanes: Vec<String>,
    is_whole: bool,
    /// Whether its claims were given marks.
    at_marks: bool,
}

/// What is to be known of an exchange that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The smallest key that it may have written.
    pub(super) from: i64,
    /// Whether a claim of it began at the beginning and reported what is there.
    pub(super) is_whole: bool,
}

/// The marks of one queue.
#[derive(Debug)]
pub(super) struct Marks {
    /// By lane; no mark means the beginning.
    marks: HashMap<String, i64>,
    launched: Vec<Launched>,
    whole_at: Instant,
    /// How many claims in a row walked long from the beginning; counted up to [`LONG_MIN`].
    long: u32,
}

impl Marks {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            marks: HashMap::new(),
            launched: Vec::new(),
            whole_at: now,
            long: 0,
        }
    }

    /// An exchange is launched. `base`: the greatest key that is known to be in use.
    pub(super) fn launch(&mut self, exchange: u64, base: i64, now: Instant) {
        self.launched.push(Launched {
            exchange,
            at: now,
            base,
            heard: i64::MAX,
            lanes: Vec::new(),
            is_whole: false,
            at_marks: false,
        });
    }

    /// The next claim begins at the beginning.
    pub(super) fn be_whole(&mut self) {
        self.marks.clear();
    }

    /// Where the claims of the exchange that was launched last begin; `None` if they begin at the beginning and find
    /// the lanes by themselves.
    pub(super) fn begin(&mut self, mut lanes: Vec<String>, now: Instant) -> Option<Beginnings> {
        let launched = self.launched.last_mut()?;
        let is_known = (1..=LANES_MAX).contains(&lanes.len());
        launched.at_marks = is_known && self.long >= LONG_MIN;
        launched.is_whole = now >= self.whole_at || !launched.at_marks;
        if launched.is_whole {
            // The one that is under way counts, however long it takes.
            self.whole_at = now + WHOLE_EVERY_MAX;
        }
        lanes.sort_unstable();
        let mark = |lane: &String| self.marks.get(lane).filter(|_| !launched.is_whole);
        let from = lanes
            .iter()
            .map(|lane| mark(lane).copied().unwrap_or(ANYWHERE));
        let from = from.collect();
        launched.lanes.clone_from(&lanes);
        launched.at_marks.then_some(Beginnings { lanes, from })
    }

    /// Something was committed that has no smaller key than this one.
    pub(super) fn heard(&mut self, from: i64) {
        self.marks
            .values_mut()
            .for_each(|mark| *mark = from.min(*mark));
        for launched in &mut self.launched {
            launched.heard = launched.heard.min(from);
        }
    }

    /// An exchange has ended. `from`: the smallest key that it may have written below its base. `seen`: what each of
    /// its claims saw.
    pub(super) fn end<'a>(
        &mut self,
        exchange: u64,
        from: i64,
        seen: impl Iterator<Item = Seen<'a>>,
        now: Instant,
    ) -> Ended {
        let Some(place) = self.launched.iter().position(|it| it.exchange == exchange) else {
            return Ended {
                from: ANYWHERE,
                is_whole: false,
            };
        };
        let ended = self.launched.swap_remove(place);
        let written = ended.base.min(from);
        self.heard(written);
        let mut was_seen = false;
        let mut was_told = false;
        let mut walked_long = false;
        for seen in seen {
            was_seen = true;
            walked_long |= seen.walked_long;
            if let Some(first) = seen.first {
                was_told = true;
                self.take(&ended, first);
            }
        }
        if ended.is_whole {
            self.judge(was_seen, walked_long);
            let apart = now.saturating_duration_since(ended.at) * APART;
            let pause = if was_seen {
                apart.clamp(WHOLE_EVERY, WHOLE_EVERY_MAX)
            } else {
                Duration::ZERO
            };
            self.whole_at = now + pause;
        }
        Ended {
            from: written,
            is_whole: ended.is_whole && was_told,
        }
    }

    /// Takes the marks from what a claim of this exchange saw first in each lane.
    fn take(&mut self, ended: &Launched, first: &[(String, i64)]) {
        // Its own claims saw what it wrote itself.
        let bound = ended.base.min(ended.heard);
        let unseen = ended.lanes.iter().map(|lane| (lane, i64::MAX));
        let seen = first.iter().map(|(lane, key)| (lane, *key));
        let all: HashMap<&String, i64> = unseen.chain(seen).collect();
        for (lane, key) in all {
            self.marks.insert(lane.clone(), key.min(bound));
        }
    }

    /// Claims from the beginning walked long, or did not.
    fn judge(&mut self, was_seen: bool, walked_long: bool) {
        if walked_long {
            self.long = LONG_MIN.min(self.long + 1);
        } else if was_seen {
            self.long = 0;
            self.marks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: &str = "a";

    /// Marks of a queue in which claims from the beginning walked long, and have just seen this key.
    fn after(key: i64) -> (Marks, Instant) {
        let now = Instant::now();
        let mut marks = Marks::new(now);
        for _ in 0..LONG_MIN {
            marks.launch(1, key, now);
            assert_eq!(marks.begin(vec![LANE.to_owned()], now), None);
            end(&mut marks, 1, Some(key), now);
        }
        (marks, now)
    }

    fn begin(marks: &mut Marks, now: Instant) -> i64 {
        marks.begin(vec![LANE.to_owned()], now).unwrap().from[0]
    }

    /// A claim saw this key, or nothing, after a long walk if it began at the beginning.
    fn end(marks: &mut Marks, exchange: u64, key: Option<i64>, now: Instant) {
        let walked_long = marks.launched.iter().any(|it| it.is_whole);
        end_after(marks, exchange, key, walked_long, now);
    }

    fn end_after(
        marks: &mut Marks,
        exchange: u64,
        key: Option<i64>,
        walked_long: bool,
        now: Instant,
    ) -> Ended {
        let first: Vec<_> = key.map(|key| (LANE.to_owned(), key)).into_iter().collect();
        let is_asked = |it: &Launched| it.exchange == exchange && it.at_marks;
        let is_told = walked_long || marks.launched.iter().any(is_asked);
        let seen = Seen {
            first: is_told.then_some(first.as_slice()),
            walked_long,
        };
        marks.end(exchange, i64::MAX, [seen].into_iter(), now)
    }

    fn next(marks: &mut Marks, base: i64, now: Instant) -> i64 {
        marks.launch(99, base, now);
        let from = begin(marks, now);
        marks.end(99, i64::MAX, [].into_iter(), now);
        from
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_begins_at_the_smallest_key_that_the_last_one_saw() {
        let (mut marks, now) = after(100);
        assert_eq!(next(&mut marks, 100, now), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_does_not_say_what_it_saw_moves_no_mark() {
        let (mut marks, now) = after(100);
        marks.launch(2, 140, now);
        begin(&mut marks, now);
        // One that takes everything is given no lists of lanes, and walked short.
        let silent = Seen {
            first: None,
            walked_long: false,
        };
        marks.end(2, i64::MAX, [silent].into_iter(), now);
        assert_eq!(next(&mut marks, 140, now), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_stays_holds_the_mark_back_until_its_lease_runs_out() {
        let (mut marks, now) = after(100);
        for (exchange, base) in [(2, 140), (3, 180)] {
            marks.launch(exchange, base, now);
            assert_eq!(begin(&mut marks, now), 100, "below the base of {base}");
            end(&mut marks, exchange, Some(100), now);
        }
        assert_eq!(next(&mut marks, 200, now), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_lane_is_marked_by_what_was_known_before_the_claim() {
        let (mut marks, now) = after(100);
        marks.launch(2, 140, now);
        begin(&mut marks, now);
        end(&mut marks, 2, None, now);
        assert_eq!(next(&mut marks, 150, now), 140);
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_with_a_smaller_number_that_another_process_commits_later_is_looked_at() {
        let (mut marks, now) = after(100);
        marks.heard(93);
        assert_eq!(next(&mut marks, 100, now), 93);
    }

    #[tokio::test(start_paused = true)]
    async fn news_during_a_claim_that_did_not_see_it_hold_its_mark_back() {
        let (mut marks, now) = after(100);
        marks.launch(2, 120, now);
        begin(&mut marks, now);
        marks.heard(93);
        end(&mut marks, 2, Some(110), now);
        assert_eq!(next(&mut marks, 120, now), 93);
    }

    #[tokio::test(start_paused = true)]
    async fn an_exchange_that_ends_after_a_quicker_one_takes_its_mark_back() {
        let (mut marks, now) = after(100);
        marks.launch(2, 105, now);
        marks.launch(3, 108, now);
        begin(&mut marks, now);
        end(&mut marks, 3, Some(120), now);
        assert_eq!(next(&mut marks, 120, now), 108);
        // It was under way all the time, and its numbers begin after 105. However it ends.
        let ended = marks.end(2, i64::MAX, [].into_iter(), now);
        assert_eq!(ended.from, 105);
        assert_eq!(next(&mut marks, 120, now), 105);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quicker_exchange_holds_the_mark_of_the_slower_one_back() {
        let (mut marks, now) = after(100);
        marks.launch(2, 108, now);
        begin(&mut marks, now);
        marks.launch(3, 104, now);
        marks.end(3, i64::MAX, [].into_iter(), now);
        end(&mut marks, 2, Some(107), now);
        assert_eq!(next(&mut marks, 120, now), 104);
    }

    #[tokio::test(start_paused = true)]
    async fn every_second_a_claim_begins_at_the_beginning_and_later_if_that_takes_long() {
        let (mut marks, now) = after(100);
        let later = now + WHOLE_EVERY;
        marks.launch(2, 100, later);
        assert_eq!(begin(&mut marks, later), ANYWHERE);
        let took = later + Duration::from_secs(2);
        end(&mut marks, 2, Some(100), took);
        assert_eq!(next(&mut marks, 100, took + WHOLE_EVERY), 100);
        let again = took + Duration::from_secs(2) * APART;
        assert_eq!(next(&mut marks, 100, again), ANYWHERE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_from_the_beginning_that_failed_is_made_up_for_at_once() {
        let (mut marks, now) = after(100);
        let later = now + WHOLE_EVERY;
        assert_eq!(
            next(&mut marks, 100, later),
            ANYWHERE,
            "its exchange brings nothing"
        );
        assert_eq!(next(&mut marks, 100, later), ANYWHERE);
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_are_in_the_order_of_their_bytes_and_unknown_ones_begin_at_the_beginning() {
        let (mut marks, now) = after(100);
        marks.launch(2, 100, now);
        let lanes = ["b", "", LANE].map(str::to_owned).to_vec();
        let begin = marks.begin(lanes, now).unwrap();
        assert_eq!(begin.lanes, ["", "a", "b"]);
        assert_eq!(begin.from, [ANYWHERE, 100, ANYWHERE]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_claim_that_was_kept_waiting_for_a_processor_is_no_reason_for_marks() {
        let now = Instant::now();
        let mut marks = Marks::new(now);
        for round in 0..20 {
            marks.launch(1, 100, now);
            assert_eq!(marks.begin(vec![LANE.to_owned()], now), None);
            // What it saw, it tells only after a long walk.
            let walked_long = round % LONG_MIN == 0;
            let told = walked_long.then_some(100);
            end_after(&mut marks, 1, told, walked_long, now);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_walks_no_longer_ends_the_marks_and_leaves_none() {
        let (mut marks, now) = after(100);
        let later = now + WHOLE_EVERY;
        marks.launch(2, 120, later);
        assert_eq!(begin(&mut marks, later), ANYWHERE);
        end_after(&mut marks, 2, Some(110), false, later);
        marks.launch(3, 130, later);
        assert_eq!(marks.begin(vec![LANE.to_owned()], later), None);
        // The claim reported nothing of the lane, which does not mean that it is empty.
        let ended = end_after(&mut marks, 3, None, false, later);
        assert!(!ended.is_whole);
        assert!(marks.marks.is_empty(), "{marks:?}");
    }
}
