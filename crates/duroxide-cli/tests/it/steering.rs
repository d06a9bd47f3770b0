//! Commands that change something.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{OrchestrationHandlers, TurnClaim};
use duroxide::{Client, OrchestrationStatus};

use crate::support::{Kind, Store, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_start_carries_a_memo_a_time_limit_and_a_trace() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let carried = [
            "--memo",
            r#"{"by":"Ada"}"#,
            "--timeout",
            "2h",
            "--traceparent",
            header,
        ];
        store.tells(&[&["start", "order", "noted", "--input", "{}"], &carried[..]].concat());
        store.tells(&["start", "order", "plain", "--memo", "a text"]);
        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        for id in ["noted", "plain"] {
            let minute = Duration::from_secs(60);
            client.wait_for_orchestration(id, minute).await.unwrap();
        }
        runtime.shutdown(None).await;
        drop(client);
        let shown = store.json(&["show", "noted"]);
        assert_eq!(shown["memo"]["by"], "Ada");
        assert_eq!(shown["traceparent"], header);
        assert!(shown["deadline_ms"].as_u64().unwrap() > 1_700_000_000_000);
        let text = store.shows(&["show", "noted"]);
        assert!(text.contains(r#"memo {"by":"Ada"}"#), "{text}");
        let listed = store.json(&["list", "--prefix", "plain"]);
        assert_eq!(listed["items"][0]["memo"], "a text");
        let refused = store.run(&["start", "order", "unfit", "--traceparent", "x"]);
        assert!(refused.err.contains("is no traceparent"), "{refused:?}");
        assert_ne!(refused.code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_reaches_the_instances() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let sent = store.tells(&["signal", "ask", "approved", "--data", "yes"]);
        assert_eq!(sent, "signal approved was sent to ask\n");
        let started = store.tells(&["start", "order", "second", "--input", "{}"]);
        assert_eq!(started, "second will start as order\n");
        let again = store.tells(&["start", "order", "paid", "--if-absent"]);
        assert_eq!(again, "paid exists; nothing was sent\n");
        let restarted = store.tells(&["restart", "refused", "--as", "third"]);
        assert_eq!(restarted, "third will start as refused did\n");
        let cancelled = store.tells(&["cancel", "family", "--reason", "enough"]);
        assert_eq!(cancelled, "family was asked to cancel\n");
        let terminated = store.tells(&["terminate", "nap", "--yes"]);
        assert_eq!(terminated, "nap was asked to terminate\n");

        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let minute = Duration::from_secs(60);
        for id in ["ask", "second", "third", "family", "nap"] {
            client.wait_for_orchestration(id, minute).await.unwrap();
        }
        let asked = client.get_orchestration_status("ask").await.unwrap();
        assert!(matches!(asked, OrchestrationStatus::Completed { output, .. } if output == "yes"));
        let nap = client.get_orchestration_status("nap").await.unwrap();
        assert!(matches!(nap, OrchestrationStatus::Failed { .. }), "{nap:?}");
        runtime.shutdown(None).await;
        drop(client);

        assert_eq!(store.tells(&["wait", "second"]), "charged\n");
        let failed = store.run(&["wait", "nap"]);
        assert_eq!(failed.code, 5, "{failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_that_take_away_want_to_be_told_twice() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        for arguments in [
            &["terminate", "nap"][..],
            &["delete", "paid"],
            &["prune", "--keep", "1"],
            &["cancel", "--name", "approval"],
        ] {
            let refused = store.run(arguments);
            assert_eq!(refused.code, 6, "{arguments:?}: {refused:?}");
            assert!(refused.err.contains("nothing was changed"), "{refused:?}");
        }
        let dry = store.tells(&["cancel", "--name", "approval", "--dry-run"]);
        assert!(
            dry.ends_with("2 instances would be asked to cancel\n"),
            "{dry}"
        );
        let dry = store.tells(&["delete", "--status", "completed", "--dry-run"]);
        assert!(
            dry.ends_with("1 instance would be deleted, with all children\n"),
            "{dry}"
        );
        let none = store.run(&["delete", "--yes"]);
        assert_eq!(
            none.code, 2,
            "a filter that names nothing means nothing: {none:?}"
        );
        assert_eq!(
            store.json(&["stats"])["instances"],
            6,
            "nothing was changed"
        );

        let deleted = store.tells(&["delete", "--status", "completed", "--yes"]);
        assert_eq!(deleted, "1 instance with 4 events was deleted\n");
        let running = store.run(&["delete", "family", "--yes"]);
        assert_eq!(running.code, 1, "{running:?}");
        let forced = store.tells(&["delete", "family", "--force", "--yes"]);
        assert!(forced.starts_with("2 instances with "), "{forced}");
        assert_eq!(store.json(&["stats"])["instances"], 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_goes_back_into_its_queue() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let sent = store.tells(&["signal", "ask", "approved", "--data", "yes"]);
        assert_eq!(sent, "signal approved was sent to ask\n");
        let provider = store.open().await;
        let filter = TurnClaim {
            handlers: Some(Arc::new(
                OrchestrationHandlers::default().with("approval", "1.0.0"),
            )),
            ..TurnClaim::new(1, Duration::from_secs(60), Duration::ZERO)
        };
        let turns = provider.claim_turns(filter).await.unwrap();
        assert_eq!(turns[0].item.instance, "ask");
        let token = &turns[0].lock_token;
        let moved = provider.dead_letter_messages(token, &[0], "a test").await;
        assert!(moved.unwrap());
        provider
            .abandon_orchestration_item(token, None, true)
            .await
            .unwrap();
        drop((turns, provider));

        // Stores number their dead letters as they like.
        let number = store.json(&["dead-letters", "list"])[0]["id"].to_string();
        let listed = store.shows(&["dead-letters", "list"]);
        let row = format!("{number} orchestrator ask T a test\n");
        assert!(listed.ends_with(&row), "{listed}");
        let why = store.tells(&["why", "ask"]);
        let told = format!("(dead letter {number}): a test");
        assert!(why.contains(&told), "{why}");
        let found = store.json(&["list", "--with-dead-letters"]);
        assert_eq!(found["items"][0]["instance_id"], "ask");
        let unasked = store.run(&["dead-letters", "delete", &number]);
        assert_eq!(unasked.code, 6, "{unasked:?}");
        let back = store.tells(&["dead-letters", "requeue", &number]);
        assert_eq!(back, "1 dead letters are in their queues again\n");
        assert_eq!(store.json(&["stats"])["dead_letters"], 0);

        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let minute = Duration::from_secs(60);
        let ended = client.wait_for_orchestration("ask", minute).await.unwrap();
        assert!(matches!(ended, OrchestrationStatus::Completed { output, .. } if output == "yes"));
        runtime.shutdown(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_go_back_by_what_they_name() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        for id in ["ask", "family::sub::2"] {
            store.tells(&["signal", id, "approved", "--data", "yes"]);
        }
        let provider = store.open().await;
        for _ in 0..2 {
            let handlers = OrchestrationHandlers::default().with("approval", "1.0.0");
            let claim = TurnClaim {
                handlers: Some(Arc::new(handlers)),
                ..TurnClaim::new(1, Duration::from_secs(60), Duration::ZERO)
            };
            let turns = provider.claim_turns(claim).await.unwrap();
            let token = &turns[0].lock_token;
            let moved = provider.dead_letter_messages(token, &[0], "a test").await;
            assert!(moved.unwrap());
            let back = provider.abandon_orchestration_item(token, None, true);
            back.await.unwrap();
        }
        drop(provider);
        let requeue = ["dead-letters", "requeue", "--name", "approval"];
        let unasked = store.run(&requeue);
        assert_eq!(unasked.code, 6, "{unasked:?}");
        let nothing = store.run(&["dead-letters", "requeue", "--yes"]);
        assert_eq!(nothing.code, 2, "{nothing:?}");
        let dry = store.tells(&[&requeue[..], &["--dry-run"]].concat());
        let would = "2 dead letters of 2 instances would be put back into their queues\n";
        assert!(dry.ends_with(would), "{dry}");
        assert_eq!(store.json(&["stats"])["dead_letters"], 2, "{kind:?}");
        let one = store.tells(&["dead-letters", "delete", "--parent", "family", "--yes"]);
        assert_eq!(one, "1 dead letter of 1 instance was deleted\n");
        let back = store.tells(&[&requeue[..], &["--yes"]].concat());
        let said = "1 dead letter of 1 instance was put back into their queues\n";
        assert_eq!(back, said);
        assert_eq!(store.json(&["stats"])["dead_letters"], 0);
        let none = store.tells(&[&requeue[..], &["--yes"]].concat());
        assert!(none.starts_with("0 dead letters of 0 instances"), "{none}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_restarted_by_filter_and_none_twice() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let restart = ["restart", "--status", "failed", "--suffix", "-again"];
        for (arguments, code) in [
            (&restart[..], 6),
            (&["restart", "--status", "failed", "--yes"], 2),
            (&["restart", "--suffix", "-again", "--yes"], 2),
            (&["restart", "refused"], 2),
            (&["restart", "refused", "--as", "x", "--name", "broken"], 2),
        ] {
            let refused = store.run(arguments);
            assert_eq!(refused.code, code, "{arguments:?}: {refused:?}");
        }
        let dry = store.tells(&[&restart[..], &["--dry-run"]].concat());
        assert!(dry.ends_with("1 instance would be restarted\n"), "{dry}");
        let yes = [&restart[..], &["--yes"]].concat();
        assert_eq!(store.tells(&yes), "1 instance was restarted\n");
        assert_eq!(store.tells(&yes), "0 instances were restarted\n");
        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let minute = Duration::from_secs(60);
        let again = client.wait_for_orchestration("refused-again", minute);
        again.await.unwrap();
        runtime.shutdown(None).await;
        drop(client);
        // The restart failed, too, and is not restarted in its turn.
        assert_eq!(store.tells(&yes), "0 instances were restarted\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_instance_waits_until_it_is_resumed() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        assert_eq!(store.tells(&["pause", "ask"]), "ask was paused\n");
        assert_eq!(store.tells(&["pause", "ask"]), "ask is paused already\n");
        let why = store.tells(&["why", "ask"]);
        assert!(
            why.contains("nothing of it runs until it is resumed"),
            "{why}"
        );
        let found = store.json(&["list", "--paused"]);
        assert_eq!(found["items"][0]["instance_id"], "ask");
        assert_eq!(found["items"].as_array().unwrap().len(), 1);
        store.tells(&["signal", "ask", "approved", "--data", "yes"]);

        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        // Another instance that came later ends: the nodes have looked at what was ready.
        client
            .start_orchestration("later", "order", "{}")
            .await
            .unwrap();
        let minute = Duration::from_secs(60);
        client
            .wait_for_orchestration("later", minute)
            .await
            .unwrap();
        let asked = client.get_orchestration_status("ask").await.unwrap();
        assert!(
            matches!(asked, OrchestrationStatus::Running { .. }),
            "{asked:?}"
        );
        assert!(client.resume_instance("ask").await.unwrap());
        let ended = client.wait_for_orchestration("ask", minute).await.unwrap();
        assert!(matches!(ended, OrchestrationStatus::Completed { output, .. } if output == "yes"));
        runtime.shutdown(None).await;
        drop(client);

        let ended = store.run(&["pause", "ask"]);
        assert_eq!(ended.out, "ask has ended; there is nothing to pause\n");
        let many = store.run(&["pause", "--status", "running"]);
        assert_eq!(many.code, 6, "{many:?}");
        let many = store.tells(&["pause", "--status", "running", "--yes"]);
        assert!(many.ends_with("instances were paused\n"), "{many}");
        let many = store.tells(&["resume", "--paused", "--yes"]);
        assert!(many.ends_with("instances were resumed\n"), "{many}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_shown_changed_and_filtered_by() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let set = store.json(&["labels", "paid", "--set", "team=blue", "--set", "note=a=b"]);
        assert_eq!(set["labels"]["note"], "a=b");
        let shown = store.tells(&["labels", "paid"]);
        assert!(shown.contains("team") && shown.contains("blue"), "{shown}");
        store.tells(&["labels", "nap", "--set", "team=red"]);
        let removed = store.json(&["labels", "paid", "--remove", "note"]);
        assert_eq!(removed["labels"], serde_json::json!({ "team": "blue" }));
        let listed = store.json(&["list", "--label", "team=blue"]);
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        assert_eq!(listed["items"][0]["instance_id"], "paid");
        let counted = store.json(&["count", "--by-label", "team"]);
        assert_eq!(counted.as_array().unwrap().len(), 2);
        assert_eq!(store.json(&["show", "paid"])["labels"]["team"], "blue");
        let refused = store.run(&["labels", "paid", "--set", "no value"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        let stranger = store.run(&["labels", "stranger", "--set", "a=b"]);
        assert_eq!(stranger.code, 3, "{stranger:?}");
        store.tells(&["start", "order", "labelled", "--label", "team=blue"]);
        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let minute = Duration::from_secs(60);
        client
            .wait_for_orchestration("labelled", minute)
            .await
            .unwrap();
        assert_eq!(client.labels("labelled").await.unwrap()["team"], "blue");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_instances_are_retried_one_or_many_and_nothing_twice() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let dry = store.json(&["retry", "refused", "--dry-run"]);
        assert_eq!(dry["done"], false);
        assert_eq!(dry["plan"]["failed_execution_id"], 1);
        assert_eq!(dry["plan"]["execution_id"], 2);
        let dry = store.tells(&["retry", "refused", "--dry-run"]);
        assert!(
            dry.starts_with("refused would be retried from event"),
            "{dry}"
        );
        for (arguments, code) in [
            (&["retry", "nobody"][..], 3),
            (&["retry", "paid"], 2),
            (&["retry", "nap"], 2),
            (&["retry", "refused", "--from-event", "99"], 2),
            (&["retry", "--status", "failed"], 6),
            (&["retry"], 2),
            (&["retry", "refused", "--wait", "1ms"], 4),
        ] {
            let told = store.run(arguments);
            assert_eq!(told.code, code, "{arguments:?}: {told:?}");
        }
        // The last one was sent, and no node was there to take it. A batch sends it once more.
        let many = store.tells(&["retry", "--status", "failed", "--yes"]);
        assert_eq!(many, "1 instance was asked to retry\n");
        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let limit = Duration::from_secs(60);
        while client.list_executions("refused").await.unwrap() != [1, 2] {
            tokio::task::yield_now().await;
        }
        client
            .wait_for_orchestration("refused", limit)
            .await
            .unwrap();
        let waits = async || {
            let pending = client.pending_work("refused").await.unwrap();
            !pending.unwrap_or_default().messages.is_empty()
        };
        while waits().await {
            tokio::task::yield_now().await;
        }
        let executions = client.list_executions("refused").await.unwrap();
        assert_eq!(executions, [1, 2], "two requests are one retry");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_the_store_on_one_screen() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let screen = store.tells(&["top", "--once"]);
        assert_eq!(screen.lines().count(), 24, "{screen}");
        assert!(
            screen.lines().all(|line| line.chars().count() <= 80),
            "{screen}"
        );
        for word in [
            "running",
            "per second",
            "queues",
            "SLOWEST",
            "refused",
            "NODE",
        ] {
            assert!(screen.contains(word), "{word} is missing:\n{screen}");
        }
        let told = store.json(&["top"]);
        assert_eq!(told["failed"], 1);
        assert_eq!(told["failing"][0]["instance_id"], "refused");
        assert_eq!(store.run(&["top"]).code, 2, "there is no terminal");
    }
}
