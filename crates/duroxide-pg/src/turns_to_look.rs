//! Who looks first when a notice reaches many processes, and who looks less often because it found nothing lately. In:
//! a notice, the processes that are known, and how looks turned out. Out: how long this one waits before it looks.
//! Never asks anybody: each process computes the same order by itself.

use std::time::Duration;

use tokio::time::Instant;

use crate::news::News;
use crate::watch::hash;

/// How many processes look at once.
const AT_ONCE: usize = 3;
/// How much later the next ones do, and how much later the last ones at most. If the work is gone by then, their claim
/// finds nothing; if more came meanwhile, it is one claim for all of it.
const NEXT_AFTER: Duration = Duration::from_millis(20);
const LAST_AFTER: Duration = Duration::from_millis(500);

/// How long this process waits before it looks; `None` if it looks at once. Each notice, of which this is the hash, has
/// an order of its own, so that the first ones are not always the same. `others` are those that would claim something,
/// without the sender, who looks by itself.
pub(crate) fn wait<'o>(
    node: &str,
    others: impl Iterator<Item = &'o str>,
    notice: u64,
) -> Option<Duration> {
    let place = |node: &str| mixed(hash(node).wrapping_add(mixed(notice)));
    let own = (place(node), node);
    let before = others.filter(|&other| (place(other), other) < own).count();
    let wave = u32::try_from(before / AT_ONCE).unwrap_or(u32::MAX);
    (wave > 0).then(|| NEXT_AFTER.saturating_mul(wave).min(LAST_AFTER))
}

/// After so many looks in a row that found nothing a process looks less often: whoever sends the notices takes what
/// they tell of by itself.
const IN_VAIN_MAX: u32 = 4;
/// How long such a process waits at first, and at most. Of several that could take the work one finds it, and goes on
/// looking at once.
const RARELY_AFTER: Duration = Duration::from_millis(20);
const RAREST_AFTER: Duration = Duration::from_millis(160);
/// After so long without a notice a process looks at once again.
const QUIET: Duration = Duration::from_secs(1);

/// How the looks of this process at the news of others turned out.
#[derive(Debug, Default)]
pub(crate) struct Luck {
    in_vain: u32,
    noticed_at: Option<Instant>,
}

impl Luck {
    /// A notice came. Returns how long looks at such notices wait for want of luck; `None` if they do not.
    pub(crate) fn noticed(&mut self, now: Instant) -> Option<Duration> {
        let before = self.noticed_at.replace(now);
        if before.is_none_or(|at| now.duration_since(at) >= QUIET) {
            self.in_vain = 0;
        }
        let times = self.in_vain.checked_sub(IN_VAIN_MAX)?;
        let factor = 2_u32.checked_pow(times).unwrap_or(u32::MAX);
        Some(RARELY_AFTER.saturating_mul(factor).min(RAREST_AFTER))
    }

    /// The process looks; in vain, until it finds something.
    pub(crate) fn looks(&mut self) {
        self.in_vain = self.in_vain.saturating_add(1);
    }

    /// The process found something to claim.
    pub(crate) fn found(&mut self) {
        self.in_vain = 0;
    }
}

/// Spreads what the last letters of a text change over all bits: without it, notices that differ in a digit would have
/// the same order.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// News that this process looks at later.
#[derive(Debug, Default)]
pub(crate) struct Later {
    news: News,
    at: Option<Instant>,
}

impl Later {
    /// Adds news. What waits already is looked at when it was going to be: a stream of notices puts nothing off.
    pub(crate) fn add(&mut self, news: News, at: Instant) {
        self.news.add(news);
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next look is due; `None` if none is.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The news, which are looked at now.
    pub(crate) fn take(&mut self) -> News {
        std::mem::take(self).news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(nodes: &[String], notice: &str) -> Vec<Option<Duration>> {
        let of = |node: &String| {
            let others = nodes.iter().filter(|other| *other != node);
            wait(node, others.map(String::as_str), hash(notice))
        };
        nodes.iter().map(of).collect()
    }

    #[test]
    fn of_many_that_hear_of_work_three_look_at_once_and_the_others_soon() {
        let nodes: Vec<String> = (0..40).map(|n| format!("{n:012x}")).collect();
        let mut first = std::collections::HashSet::new();
        for notice in 0..50 {
            let waits = waits(&nodes, &format!("sender|t||{notice}|"));
            let at_once = waits.iter().filter(|wait| wait.is_none());
            assert_eq!(at_once.count(), AT_ONCE);
            assert!(waits.iter().flatten().all(|wait| *wait <= LAST_AFTER));
            let next = waits.iter().flatten().filter(|wait| **wait == NEXT_AFTER);
            assert_eq!(next.count(), AT_ONCE, "the next ones are as many");
            first.extend(waits.iter().position(Option::is_none));
        }
        assert!(first.len() > 5, "not always the same ones: {first:?}");
    }

    #[test]
    fn of_few_all_look_at_once() {
        let nodes: Vec<String> = (0..AT_ONCE).map(|n| n.to_string()).collect();
        assert_eq!(waits(&nodes, "sender|t||7|"), [None; AT_ONCE]);
    }

    #[test]
    fn who_looks_in_vain_again_and_again_looks_less_often_until_it_finds_something() {
        let (mut luck, mut now) = (Luck::default(), Instant::now());
        let mut notice = |luck: &mut Luck| {
            now += Duration::from_millis(10);
            luck.noticed(now)
        };
        for _ in 0..IN_VAIN_MAX {
            assert_eq!(notice(&mut luck), None);
            luck.looks();
        }
        assert_eq!(notice(&mut luck), Some(RARELY_AFTER));
        luck.looks();
        assert_eq!(notice(&mut luck), Some(RARELY_AFTER * 2));
        for _ in 0..100 {
            luck.looks();
        }
        assert_eq!(notice(&mut luck), Some(RAREST_AFTER));
        luck.found();
        assert_eq!(notice(&mut luck), None);
    }

    #[test]
    fn after_a_quiet_second_a_notice_is_looked_at_at_once() {
        let (mut luck, now) = (Luck::default(), Instant::now());
        for _ in 0..100 {
            luck.noticed(now);
            luck.looks();
        }
        assert_eq!(luck.noticed(now), Some(RAREST_AFTER));
        assert_eq!(luck.noticed(now + QUIET), None);
    }

    #[test]
    fn a_stream_of_notices_puts_no_look_off() {
        let now = Instant::now();
        let mut later = Later::default();
        let news = |from| News {
            turns: Some(from),
            work: None,
        };
        later.add(news(7), now + NEXT_AFTER);
        later.add(news(3), now + LAST_AFTER);
        assert_eq!(later.at(), Some(now + NEXT_AFTER));
        assert_eq!(later.take(), news(3));
        assert_eq!(later.at(), None);
    }
}
