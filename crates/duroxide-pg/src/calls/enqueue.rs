//! Messages and activities as calls. In: what is to be written. Out: arrays.

use crate::calls::claim_turns::KnownUpTo;
use crate::codec::{NewMessage, NewWork};
use crate::connection::call::Call;

/// Locks the inboxes of turns that are held, and opens those of instances that are sent something.
pub(crate) fn open<'a>(
    held: impl IntoIterator<Item = &'a str>,
    sent: &[&'a NewMessage],
    expected: i64,
) -> Call<'a> {
    open_and_lease(held, sent, &[], expected)
}

/// What the node of a turn that was handed out early takes for granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assumed<'a> {
    /// The first message of the turn: it opens the inbox.
    pub(crate) opens: &'a NewMessage,
    pub(crate) token: uuid::Uuid,
    /// `None` for an instance that the turn begins.
    pub(crate) known: Option<KnownUpTo>,
    pub(crate) lock_ms: i64,
}

/// As [`open`]; the inboxes of turns that were handed out early are leased by them.
pub(crate) fn open_and_lease<'a>(
    held: impl IntoIterator<Item = &'a str>,
    sent: &[&'a NewMessage],
    early: &[Assumed<'a>],
    expected: i64,
) -> Call<'a> {
    let leased = || early.iter().map(|turn| (turn.opens, Some(turn.token)));
    let locks = || {
        let none = sent.iter().map(|_| None);
        none.chain(early.iter().map(|turn| Some(turn.lock_ms)))
    };
    let of = || sent.iter().map(|one| (*one, None)).chain(leased());
    Call::new("open_inboxes")
        .int(expected)
        .texts(held)
        .texts(of().map(|(one, _)| one.instance.as_str()))
        .opt_ints(of().map(|(one, _)| one.due))
        .ints(of().map(|(one, _)| one.delay))
        .opt_texts(of().map(|(one, _)| one.begins.as_deref()))
        .flags(of().map(|(one, _)| one.is_cancel()))
        .opt_uuids(of().map(|(_, token)| token))
        .opt_ints(locks())
}

/// Checks that the instances of these turns stand as their node took them to.
pub(crate) fn check_early<'a>(early: &[Assumed<'a>], expected: i64) -> Call<'a> {
    let known = || early.iter().map(|turn| turn.known);
    Call::new("check_early")
        .int(expected)
        .texts(early.iter().map(|turn| turn.opens.instance.as_str()))
        .uuids(early.iter().map(|turn| turn.token))
        .opt_ints(known().map(|it| it.map(|known| known.incarnation)))
        .opt_ints(known().map(|it| it.map(|known| known.execution)))
        .opt_ints(known().map(|it| it.map(|known| known.event)))
}

/// The messages of these turns are stored: their leases claim them.
pub(crate) fn lease_early<'a>(early: &[Assumed<'a>], expected: i64) -> Call<'a> {
    Call::new("lease_early")
        .int(expected)
        .texts(early.iter().map(|turn| turn.opens.instance.as_str()))
        .uuids(early.iter().map(|turn| turn.token))
}

/// Messages whose inboxes are open.
pub(crate) fn messages<'a>(sent: &[&'a NewMessage], expected: i64) -> Call<'a> {
    let of = || sent.iter().copied();
    Call::new("enqueue_messages")
        .int(expected)
        .texts(of().map(|one| one.instance.as_str()))
        .texts(of().map(|one| one.kind))
        .texts(of().map(|one| one.json.as_str()))
        .opt_ints(of().map(|one| one.due))
        .ints(of().map(|one| one.delay))
        .opt_texts(of().map(|one| one.begins.as_deref()))
        .opt_ints(of().map(|one| one.answers.map(|(execution, _)| execution)))
        .opt_ints(of().map(|one| one.answers.map(|(_, operation)| operation)))
        .opt_ints(of().map(|_| None))
}

pub(crate) fn work<'a>(sent: &[&'a NewWork], expected: i64) -> Call<'a> {
    let of = || sent.iter().copied();
    Call::new("enqueue_work")
        .int(expected)
        .texts(of().map(|one| one.instance.as_str()))
        .ints(of().map(|one| one.execution_id))
        .ints(of().map(|one| one.activity_id))
        .texts(of().map(|one| one.name.as_str()))
        .texts(of().map(|one| one.json.as_str()))
        .opt_texts(of().map(|one| one.session.as_deref()))
        .opt_texts(of().map(|one| one.tag.as_deref()))
        .texts(of().map(|one| one.lane.as_str()))
}

/// A completed activity: its row, its token, and the message to its instance.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) id: i64,
    pub(crate) token: uuid::Uuid,
    pub(crate) completion: Option<NewMessage>,
}

/// Completions whose inboxes are open. The first `silent` of them send their instances no message: turns were decided
/// on them. If one of the first `strict` has lost its lease, the transaction is taken back.
pub(crate) fn acks<'a>(acks: &[&'a Ack], silent: usize, strict: usize, expected: i64) -> Call<'a> {
    let of = || acks.iter().copied();
    let sent = || {
        (1..)
            .zip(of())
            .skip(silent)
            .filter_map(|(place, ack)| Some((place, ack.completion.as_ref()?)))
    };
    Call::new("ack_work")
        .int(expected)
        .ints(of().map(|ack| ack.id))
        .uuids(of().map(|ack| ack.token))
        .smalls(sent().map(|(place, _)| place))
        .texts(sent().map(|(_, one)| one.instance.as_str()))
        .texts(sent().map(|(_, one)| one.kind))
        .texts(sent().map(|(_, one)| one.json.as_str()))
        .opt_ints(sent().map(|(_, one)| one.answers.map(|(execution, _)| execution)))
        .opt_ints(sent().map(|(_, one)| one.answers.map(|(_, operation)| operation)))
        .small(i32::try_from(strict).unwrap_or(i32::MAX))
}
