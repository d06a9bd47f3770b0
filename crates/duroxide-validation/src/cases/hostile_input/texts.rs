//! Texts come back byte for byte, wherever they were put.

use duroxide_core::provider::{ProviderError, TagFilter};

use super::TEXTS;
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items, kinds, session};

/// Instance ids of any content name one instance each.
pub async fn instance_ids_come_back_as_they_were<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in TEXTS {
        let first = Commit::first().and(kinds::kv_set("own", id));
        bench.create_with(id, first).await;
    }
    for id in TEXTS {
        assert_eq!(bench.read(id).await.len(), 2, "{id:?}");
        let own = bench.store.get_kv_value(id, "own").await.expect("readable");
        assert_eq!(own.as_deref(), Some(*id));
        bench.nudge(id, Commit::to(1)).await;
    }
    if let Some(admin) = bench.store.as_management_capability() {
        let mut listed = admin.list_instances().await.expect("a listing");
        let mut expected: Vec<String> = TEXTS.iter().map(|t| (*t).to_owned()).collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }
}

/// Ids that look alike are different instances.
pub async fn ids_that_look_alike_are_different<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let alike = [
        "Order", "order", "ORDER", "order ", " order", "\u{e9}", "e\u{301}",
    ];
    for (n, id) in alike.iter().enumerate() {
        let first = Commit::first().and(kinds::kv_set("n", &n.to_string()));
        bench.create_with(id, first).await;
    }
    for (n, id) in alike.iter().enumerate() {
        let value = bench.store.get_kv_value(id, "n").await.expect("readable");
        assert_eq!(value, Some(n.to_string()), "{id:?}");
    }
}

/// Ids with pattern characters match nothing but themselves when deleted.
pub async fn an_id_is_not_a_pattern<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["a%", "a_", "ab", "a*"] {
        bench.create_with(id, Commit::first().completed("ok")).await;
    }
    for id in ["a%", "a_", "a*"] {
        let deleted = bench.admin().delete_instance(id, false).await;
        assert_eq!(deleted.expect("it is done").instances_deleted, 1);
    }
    assert_eq!(bench.read("ab").await.len(), 2);
}

/// Messages, events, keys, statuses and outputs of any content come back as they were.
pub async fn payloads_come_back_as_they_were<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (n, text) in TEXTS.iter().enumerate() {
        let instance = format!("payload-{n}");
        let first = Commit::first()
            .and(kinds::activity_completed(text))
            .and(kinds::kv_set(text, text))
            .and(kinds::custom_status(Some(text)));
        bench.create_with(&instance, first).await;
        bench.send(items::queue_message(&instance, text)).await;
        let turn = bench.turn_of(&instance).await;
        assert_eq!(turn.item.messages, [items::queue_message(&instance, text)]);
        assert_eq!(turn.item.history[1].kind, kinds::activity_completed(text));
        let value = bench
            .store
            .get_kv_value(&instance, text)
            .await
            .expect("readable");
        assert_eq!(value.as_deref(), Some(*text));
        let status = bench
            .store
            .get_custom_status(&instance, 0)
            .await
            .expect("readable");
        assert_eq!(status, Some((Some((*text).to_owned()), 1)));
        bench.commit(&turn, Commit::to(1)).await;
    }
}

/// A NUL character is kept, or refused for good; it never cuts a text short.
pub async fn a_nul_character_is_kept_or_refused<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("nul").await;
    let message = items::queue_message("nul", "before\0after");
    match bench
        .store
        .enqueue_for_orchestrator(message.clone(), None)
        .await
    {
        Ok(()) => assert_eq!(bench.turn_of("nul").await.item.messages, [message]),
        Err(error) => assert!(!error.is_retryable(), "it will never fit: {error}"),
    }
}

/// Nor in an id, an event, a key, a value, a status, or the input, tag or session of an activity.
pub async fn a_nul_character_cuts_nothing_short<F: ProviderFactory + ?Sized>(factory: &F) {
    const NUL: &str = "before\0after";
    let bench = Bench::open(factory).await;
    let told = |answer: Result<(), ProviderError>| match answer {
        Ok(()) => true,
        Err(error) => {
            assert!(!error.is_retryable(), "it will never fit: {error}");
            false
        }
    };
    bench.create("before").await;
    if told(
        bench
            .store
            .enqueue_for_orchestrator(items::start(NUL), None)
            .await,
    ) {
        let turn = bench.turn_of(NUL).await;
        bench.commit(&turn, Commit::first()).await;
        assert_eq!(bench.read(NUL).await.len(), 1);
    }
    assert_eq!(bench.read("before").await.len(), 1, "another instance");
    for (n, kind) in [
        kinds::activity_completed(NUL),
        kinds::kv_set(NUL, "value"),
        kinds::kv_set("key", NUL),
        kinds::custom_status(Some(NUL)),
    ]
    .into_iter()
    .enumerate()
    {
        let instance = format!("nul-{n}");
        bench.start(&instance).await;
        let turn = bench.turn_of(&instance).await;
        let commit = Commit::first().and(kind.clone());
        if !told(bench.try_commit(&turn, commit).await) {
            continue;
        }
        assert_eq!(bench.read(&instance).await[1].kind, kind);
        let values = bench.store.get_kv_all_values(&instance).await;
        let values = values.expect("readable");
        let status = bench.store.get_custom_status(&instance, 0).await;
        let status = status.expect("readable").and_then(|(text, _)| text);
        match n {
            1 => assert_eq!(values.get(NUL).map(String::as_str), Some("value")),
            2 => assert_eq!(values.get("key").map(String::as_str), Some(NUL)),
            3 => assert_eq!(status.as_deref(), Some(NUL)),
            _ => {}
        }
    }
    let plain = items::activity_input("before", 9, NUL);
    let routed = items::activity_with("before", 10, Some(NUL), Some(NUL));
    for item in [plain, routed] {
        if told(bench.store.enqueue_for_worker(item.clone()).await) {
            let owner = session("owner", bench.lock);
            let tags = TagFilter::default_and([NUL]);
            let found =
                crate::fixture::work_from(&*bench.store, bench.lock, Some(&owner), &tags).await;
            assert_eq!(found.map(|work| work.item), Some(item));
        }
    }
}

/// Tags, session ids and owner ids of any content work like plain ones.
pub async fn sessions_and_tags_may_have_any_name<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (id, text) in (1..).zip(TEXTS) {
        let item = items::activity_with("named", id, Some(text), Some(text));
        bench.schedule(item.clone()).await;
        let tags = TagFilter::tags([*text]);
        let owner = session(text, bench.lock);
        let found = crate::fixture::work_from(&*bench.store, bench.lock, Some(&owner), &tags).await;
        assert_eq!(found.map(|work| work.item), Some(item), "{text:?}");
    }
}

/// A forged token of any content opens nothing.
pub async fn forged_tokens_open_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("safe").await;
    bench.schedule(items::activity("safe", 1)).await;
    let turn = bench.turn_of("safe").await;
    let work = bench.work().await;
    let patterns = ["%", "_", "*", "?", ".*"];
    for text in TEXTS.iter().chain(&patterns) {
        let forged = Turn {
            token: (*text).to_owned(),
            ..turn.clone()
        };
        assert!(
            bench.try_commit(&forged, Commit::first()).await.is_err(),
            "{text:?}"
        );
        assert!(
            bench.try_abandon(&forged, None, false).await.is_err(),
            "{text:?}"
        );
        let store = &bench.store;
        assert!(store.ack_work_item(text, None).await.is_err(), "{text:?}");
        let long = bench.lock * 100;
        let renewal = store.renew_orchestration_item_lock(text, long).await;
        assert!(renewal.is_err(), "{text:?}");
        let renewal = store.renew_work_item_lock(text, long).await;
        assert!(renewal.is_err(), "{text:?}");
        let back = store.abandon_work_item(text, None, true).await;
        assert!(back.is_err(), "{text:?}");
        let moved = store.dead_letter_messages(text, &[0], "forged").await;
        assert_ne!(moved, Ok(true), "{text:?}");
        let moved = store.dead_letter_work_item(text, "forged").await;
        assert_ne!(moved, Ok(true), "{text:?}");
    }
    bench.commit(&turn, Commit::first()).await;
    bench.finish(&work).await;
}

/// Payloads of two megabytes pass both queues and the history.
pub async fn two_megabytes_pass<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let large: String = "0123456789ä"
        .chars()
        .cycle()
        .take(2 * 1024 * 1024)
        .collect();
    let first = Commit::first().and(kinds::activity_completed(&large));
    bench.create_with("large", first).await;
    bench.send(items::queue_message("large", &large)).await;
    let turn = bench.turn_of("large").await;
    assert!(
        turn.item.messages == [items::queue_message("large", &large)],
        "the message"
    );
    assert!(
        turn.item.history[1].kind == kinds::activity_completed(&large),
        "the event"
    );
}

/// An id of two thousand characters is an id.
pub async fn a_long_id_is_an_id<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    // PostgreSQL and others index ids; this is more than any program uses and less than an index page.
    let (one, two) = ("x".repeat(2_000), format!("{}y", "x".repeat(1_999)));
    bench.create(&one).await;
    bench.create(&two).await;
    bench
        .nudge(&one, Commit::to(1).event(2, kinds::completed("ok")))
        .await;
    assert_eq!(bench.read(&one).await.len(), 2);
    assert_eq!(bench.read(&two).await.len(), 1);
}
