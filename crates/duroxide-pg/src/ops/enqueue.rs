//! Messages and activities as calls. In: what is to be written. Out: arrays.

use crate::args::Call;
use crate::codec::{NewMessage, NewWork};

/// Locks the inboxes of turns that are held, and opens those of instances that are sent something.
pub(crate) fn open<'a>(
    held: impl IntoIterator<Item = &'a str>,
    sent: &[&'a NewMessage],
    expected: i64,
) -> Call<'a> {
    let of = || sent.iter().copied();
    Call::new("open_inboxes")
        .int(expected)
        .texts(held)
        .texts(of().map(|one| one.instance.as_str()))
        .opt_ints(of().map(|one| one.due))
        .ints(of().map(|one| one.delay))
        .opt_texts(of().map(|one| one.begins.as_deref()))
        .flags(of().map(NewMessage::is_cancel))
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

/// A completed activity: its row, its token, and what it tells the instance.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) id: i64,
    pub(crate) token: uuid::Uuid,
    pub(crate) completion: Option<NewMessage>,
}

/// Completions whose inboxes are open.
pub(crate) fn acks<'a>(acks: &[&'a Ack], expected: i64) -> Call<'a> {
    let of = || acks.iter().copied();
    let sent = || {
        (1..)
            .zip(of())
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
}
