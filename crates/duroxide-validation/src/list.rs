//! The list of all cases, written once. It feeds the registry, the `conformance!` macro and the documents.
//!
//! Form of an entry: `function [What it needs] call_shape;`, where the call shape is left out for functions that take
//! a factory.

/// Hands the whole case list to another macro.
///
/// `for_each_case! { [path::to::macro!] [anything] }` expands to `path::to::macro! { [anything] module { case; … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($callback:tt)*] [$($arguments:tt)*]) => {
        $($callback)* {
            [$($arguments)*]
            instance_creation {
                test_instance_creation_via_metadata;
                test_no_instance_creation_on_enqueue;
                test_null_version_handling;
                test_sub_orchestration_instance_creation;
            }
            atomicity {
                test_atomicity_failure_rollback;
                test_multi_operation_atomic_ack;
                test_lock_released_only_on_successful_ack;
                test_concurrent_ack_prevention;
            }
            error_handling {
                test_invalid_lock_token_on_ack;
                test_duplicate_event_id_rejection;
                test_missing_instance_metadata;
                test_corrupted_serialization_data;
                test_lock_expiration_during_ack;
                test_read_corrupted_history_returns_error [CorruptHistory];
                test_read_with_execution_corrupted_history_returns_error [CorruptHistory];
            }
            instance_locking {
                test_concurrent_instance_fetching;
                test_multi_threaded_lock_contention;
                test_multi_threaded_no_duplicate_processing;
                test_multi_threaded_lock_expiration_recovery;
                no_meeting_of_claimers_has_two_winners;
                test_exclusive_instance_lock;
                test_lock_token_uniqueness;
                test_invalid_lock_token_rejection;
                test_cross_instance_lock_isolation;
                test_completions_arriving_during_lock_blocked;
                test_message_tagging_during_lock;
                test_ack_only_affects_locked_messages;
            }
            lock_expiration {
                test_lock_expires_after_timeout;
                test_abandon_releases_lock_immediately;
                test_lock_renewal_on_ack;
                test_concurrent_lock_attempts_respect_expiration;
                test_orchestration_lock_renewal_after_expiration;
                test_worker_lock_renewal_success;
                test_worker_lock_renewal_invalid_token;
                test_worker_lock_renewal_after_expiration;
                test_worker_lock_renewal_extends_timeout;
                test_worker_lock_renewal_after_ack;
                test_abandon_work_item_releases_lock;
                test_abandon_work_item_with_delay;
                test_worker_ack_fails_after_lock_expiry;
            }
            multi_execution {
                test_execution_isolation;
                test_latest_execution_detection;
                test_execution_id_sequencing;
                test_continue_as_new_creates_new_execution;
                test_execution_history_persistence;
            }
            queue_semantics {
                a_claimed_activity_is_told;
                test_worker_queue_fifo_ordering;
                test_worker_peek_lock_semantics;
                test_worker_ack_atomicity;
                test_timer_delayed_visibility;
                test_lost_lock_token_handling;
                test_worker_item_immediate_visibility;
                test_worker_delayed_visibility_skips_future_items;
                test_orphan_queue_messages_dropped [UnknownInstanceGrace];
            }
            management {
                test_list_instances [Management];
                test_list_instances_by_status [Management];
                test_list_executions [Management];
                test_get_instance_info [Management];
                test_get_execution_info [Management];
                test_get_system_metrics [Management];
                test_get_queue_depths [Management];
                test_get_instance_stats_nonexistent;
                test_get_instance_stats_history;
                test_get_instance_stats_kv;
                test_get_instance_stats_carry_forward;
                test_get_instance_stats_kv_delta_only;
                test_get_instance_stats_kv_merged;
            }
            long_polling {
                test_short_poll_returns_immediately [ShortPoll] threshold;
                test_short_poll_work_item_returns_immediately [ShortPoll] threshold;
                test_long_poll_waits_for_timeout [LongPoll] provider;
                test_long_poll_work_item_waits_for_timeout [LongPoll] provider;
                test_fetch_respects_timeout_upper_bound provider;
            }
            poison_message {
                orchestration_attempt_count_starts_at_one;
                orchestration_attempt_count_increments_on_refetch;
                worker_attempt_count_starts_at_one;
                worker_attempt_count_increments_on_lock_expiry;
                attempt_count_is_per_message;
                abandon_work_item_ignore_attempt_decrements;
                abandon_orchestration_item_ignore_attempt_decrements;
                ignore_attempt_never_goes_negative;
                max_attempt_count_across_message_batch;
                orchestration_ignore_attempt_preserves_hidden_start;
                orchestration_delayed_abandon_preserves_unlocked_rows;
            }
            cancellation {
                test_fetch_returns_running_state_for_active_orchestration;
                test_fetch_returns_terminal_state_when_orchestration_completed;
                test_fetch_returns_terminal_state_when_orchestration_failed;
                test_fetch_returns_terminal_state_when_orchestration_continued_as_new;
                test_fetch_returns_missing_state_when_instance_deleted;
                test_renew_returns_running_when_orchestration_active;
                test_renew_returns_terminal_when_orchestration_completed;
                test_renew_returns_missing_when_instance_deleted;
                test_ack_work_item_none_deletes_without_enqueue;
                test_cancelled_activities_deleted_from_worker_queue;
                test_ack_work_item_fails_when_entry_deleted;
                test_renew_fails_when_entry_deleted;
                test_cancelling_nonexistent_activities_is_idempotent;
                test_batch_cancellation_deletes_multiple_activities;
                test_same_activity_in_worker_items_and_cancelled_is_noop;
                test_orphan_activity_after_instance_force_deletion [Management];
            }
            deletion {
                test_delete_instances_atomic [Management];
                test_delete_instances_atomic_force [Management];
                test_delete_instances_atomic_orphan_detection [Management];
                test_delete_terminal_instances [Management];
                test_delete_running_rejected_force_succeeds [Management];
                test_delete_nonexistent_instance [Management];
                test_delete_cleans_queues_and_locks [Management];
                test_force_delete_prevents_ack_recreation [Management];
                test_stale_activity_after_delete_recreate [Management];
                test_cascade_delete_hierarchy [Management];
                test_list_children [Management];
                test_delete_get_parent_id [Management];
                test_delete_get_instance_tree [Management];
            }
            prune {
                test_prune_options_combinations [Management];
                test_prune_safety [Management];
                test_prune_bulk [Management];
                test_prune_bulk_includes_running_instances [Management];
                bulk_pruning_takes_the_oldest_first [Management];
            }
            bulk_deletion {
                test_delete_instance_bulk_filter_combinations [Management];
                test_delete_instance_bulk_safety_and_limits [Management];
                bulk_deletion_takes_the_oldest_first [Management];
                a_limit_counts_roots [Management];
                test_delete_instance_bulk_completed_before_filter [Management];
                test_delete_instance_bulk_cascades_to_children [Management];
            }
            capability_filtering {
                test_fetch_corrupted_history_filtered_vs_unfiltered [CorruptHistory];
                test_fetch_deserialization_error_increments_attempt_count [CorruptHistory, AttemptCounts];
                test_fetch_deserialization_error_eventually_reaches_poison [CorruptHistory, AttemptCounts];
                test_fetch_filter_applied_before_history_deserialization [CorruptHistory];
                test_ack_appends_event_to_corrupted_history [CorruptHistory, Management];
                test_pinned_version_stored_via_ack_metadata;
                test_pinned_version_immutable_across_ack_cycles;
                test_continue_as_new_execution_gets_own_pinned_version;
                test_ack_stores_pinned_version_via_metadata_update;
                test_provider_updates_pinned_version_when_told;
                test_fetch_with_filter_none_returns_any_item;
                test_fetch_with_compatible_filter_returns_item;
                test_fetch_with_incompatible_filter_skips_item;
                test_fetch_filter_skips_incompatible_selects_compatible;
                test_fetch_filter_does_not_lock_skipped_instances;
                test_fetch_filter_null_pinned_version_always_compatible;
                test_fetch_filter_boundary_versions;
                test_filter_with_empty_supported_versions_returns_nothing;
                test_concurrent_filtered_fetch_no_double_lock;
                test_fetch_single_range_only_uses_first_range;
            }
            custom_status {
                test_custom_status_set;
                test_custom_status_clear;
                test_custom_status_none_preserves;
                test_custom_status_version_increments;
                test_custom_status_polling_no_change;
                test_custom_status_nonexistent_instance;
                test_custom_status_default_on_new_instance;
            }
            tag_filtering {
                test_default_only_fetches_untagged;
                test_tags_fetches_only_matching;
                test_default_and_fetches_untagged_and_matching;
                test_none_filter_returns_nothing;
                test_multi_tag_filter;
                test_tag_round_trip_preservation;
                test_any_filter_fetches_everything;
                test_tag_survives_abandon_and_refetch;
                test_multi_runtime_tag_isolation;
                test_tag_preserved_through_ack_orchestration_item;
            }
            sessions {
                test_non_session_items_fetchable_by_any_worker;
                test_session_item_claimable_when_no_session;
                test_session_affinity_same_worker;
                test_session_affinity_blocks_other_worker;
                test_different_sessions_different_workers;
                test_mixed_session_and_non_session_items;
                test_none_session_skips_session_items;
                test_some_session_returns_all_items;
                test_session_items_processed_in_order;
                test_non_session_items_returned_with_session_config;
                test_shared_worker_id_any_caller_can_fetch_owned_session;
                test_concurrent_session_claim_only_one_wins;
                test_cleanup_removes_expired_no_items;
                test_cleanup_keeps_sessions_with_pending_items;
                test_cleanup_keeps_active_sessions;
                test_cleanup_then_new_item_recreates_session;
                test_session_claimable_after_lock_expiry;
                test_session_takeover_after_lock_expiry;
                test_original_worker_reclaims_expired_session;
                test_activity_lock_expires_session_lock_valid_same_worker_refetches;
                test_session_lock_expires_new_owner_gets_redelivery;
                test_session_lock_expires_same_worker_reacquires;
                test_both_locks_expire_different_worker_claims;
                test_session_lock_expires_activity_lock_valid_ack_succeeds;
                test_renew_session_lock_active;
                test_renew_session_lock_skips_idle;
                test_renew_session_lock_no_sessions;
                test_renew_session_lock_after_expiry_returns_zero;
                test_session_lock_renewal_extends_past_original_timeout;
                test_ack_updates_session_last_activity;
                test_renew_work_item_updates_session_last_activity;
                test_abandoned_session_item_retryable;
                test_abandoned_session_item_ignore_attempt;
            }
            kv_store {
                test_kv_set_and_get;
                test_kv_overwrite;
                test_kv_clear_single;
                test_kv_clear_all;
                test_kv_get_nonexistent;
                test_kv_get_unknown_instance;
                test_kv_clear_nonexistent_key;
                test_kv_set_after_clear;
                test_kv_empty_value;
                test_kv_large_value;
                test_kv_special_chars_in_key;
                test_kv_instance_isolation;
                test_kv_clear_isolation;
                test_kv_delta_snapshot_excludes_current_execution;
                test_kv_delta_snapshot_includes_completed_execution;
                test_kv_delta_client_reads_merged;
                test_kv_delta_tombstone_overrides_store;
                test_kv_delta_clear_all_tombstones_store;
                test_kv_delta_merged_on_completion;
                test_kv_delta_merged_on_can;
                test_kv_cross_execution_overwrite;
                test_kv_cross_execution_remove_readd;
                test_kv_execution_id_tracking [Management];
                test_kv_prune_preserves_overwritten [Management];
                test_kv_prune_preserves_all_keys [Management];
                test_kv_prune_current_execution_protected [Management];
                test_kv_delete_instance_cascades [Management];
                test_kv_delete_instance_with_children [Management];
                test_kv_delta_delete_instance_cascades [Management];
                test_kv_delta_prune_untouched_key_survives [Management];
                test_kv_snapshot_empty;
                test_kv_snapshot_in_fetch;
                test_kv_snapshot_after_clear_single;
                test_kv_snapshot_after_clear_all;
                test_kv_snapshot_cross_execution;
            }
            race_replay {
                test_duplicate_start_preserves_pinned_handler;
                test_continue_as_new_unregistered_backoff;
                test_continue_as_new_poisoned_successor_is_own_execution;
                test_continue_as_new_duplicate_start;
                test_continue_as_new_transition_delivery stamped;
                test_queue_race_cancellation_replay;
                test_continue_as_new_queue_race_replay;
                test_queue_replay_version_stamp_roundtrip;
                test_positional_wait_race_replay;
                test_legacy_queue_race_decision_preserved;
            }
            orphans {
                an_orphan_cancel_does_not_block_other_instances;
                an_orphan_signal_does_not_block_other_instances;
                an_orphan_activity_result_does_not_block_other_instances;
                an_orphan_timer_does_not_block_other_instances;
                an_orphan_child_result_does_not_block_other_instances;
                a_hundred_orphans_do_not_block_a_start;
                an_early_message_waits_for_its_start;
                a_crowd_of_early_messages_follows_its_start [Bounds];
                an_early_queue_message_waits_for_its_start [UnknownInstanceGrace];
                an_early_message_waits_for_a_delayed_start [UnknownInstanceGrace];
                a_start_does_not_rest_behind_an_early_signal;
                an_orphan_leaves_no_lease_behind;
                a_mixed_orphan_batch_is_kept;
                a_queue_message_next_to_its_start_is_delivered;
                an_orphan_is_consumed_after_the_grace_period [UnknownInstanceGrace, Management];
                leftovers_of_a_deleted_instance_do_not_block [Management];
            }
            undecodable {
                an_undecodable_message_does_not_block_its_instance [CorruptMessages];
                an_undecodable_message_does_not_block_other_instances [CorruptMessages];
                an_undecodable_start_does_not_block_its_id [CorruptMessages];
                an_undecodable_message_becomes_a_dead_letter [CorruptMessages, DeadLetters, Management];
                an_undecodable_activity_does_not_block_the_queue [CorruptMessages];
                an_undecodable_activity_becomes_a_dead_letter [CorruptMessages, DeadLetters, Management];
                an_undecodable_result_fails_the_waiting_activity [CorruptMessages, DeadLetters, Management];
                an_undecodable_result_fails_the_waiting_child [CorruptMessages, DeadLetters, Management];
                an_undecodable_start_of_a_child_fails_the_waiting_parent [CorruptMessages, DeadLetters, Management];
                an_undecodable_activity_fails [CorruptMessages, DeadLetters, Management];
                a_damaged_history_keeps_its_messages [CorruptHistory];
                a_damaged_history_does_not_block_other_instances [CorruptHistory];
            }
            fencing {
                an_event_without_a_position_is_rejected;
                an_append_never_overwrites;
                a_second_commit_is_rejected;
                an_abandoned_turn_is_over;
                an_abandoned_activity_is_over;
                a_completion_must_be_a_result;
                an_activity_is_no_orchestrator_message;
                the_worker_queue_takes_activities_only;
                a_commit_may_schedule_a_thousand_activities;
                a_failed_commit_has_no_side_effect;
                a_taken_over_turn_cannot_commit;
                a_taken_over_turn_cannot_commit_later;
                a_taken_over_turn_cannot_be_renewed;
                a_taken_over_turn_cannot_be_abandoned;
                a_taken_over_activity_cannot_be_acked;
                a_taken_over_activity_cannot_be_renewed_or_given_back;
                a_renewed_turn_stays_leased;
                a_renewal_counts_from_now;
                a_renewal_has_the_length_it_asks_for;
                an_unknown_turn_cannot_be_renewed;
                tokens_are_good_for_their_own_queue_only;
                a_lost_lease_is_told_as_such;
            }
            claims {
                a_batch_of_turns_keeps_its_limit;
                a_batch_of_turns_is_filled [BatchedTurns];
                each_turn_of_a_batch_has_its_own_lease;
                a_batch_of_turns_is_filtered;
                an_empty_store_makes_an_empty_batch;
                message_attempts_belong_to_their_messages [MessageAttempts];
                a_batch_of_activities_is_in_order;
                a_batch_of_activities_is_filled [BatchedWork];
                a_batch_of_activities_is_filtered;
                lost_activity_leases_are_named [LostWork];
                a_current_history_is_confirmed_or_loaded;
                an_outdated_history_is_loaded;
                a_history_with_a_gap_is_known_by_its_last_event;
                a_history_ahead_of_the_store_is_loaded;
                a_history_of_another_execution_is_loaded;
                an_unknown_history_is_loaded;
                a_history_of_a_deleted_instance_is_not_confirmed [Management];
                a_turn_handed_out_early_is_committed_like_any_other;
                a_turn_handed_out_early_is_leased;
                a_turn_handed_out_early_can_be_abandoned;
                what_a_turn_handed_out_early_asks_is_answered_as_of_its_claim;
                as_many_claimers_as_instances_are_all_served;
                as_many_workers_as_activities_are_all_served;
                forty_callers_on_both_queues_do_not_disturb_each_other;
                messages_from_many_senders_all_arrive;
                an_abandon_counts_only_its_own_messages;
                a_delayed_abandon_keeps_the_order;
                an_undelayed_abandon_leaves_visibility_alone;
                attempts_are_on_record_at_claim_time [AttemptCounts];
                an_expired_turn_counts_as_an_attempt;
                an_expired_claim_can_be_given_back;
                cancellation_names_exactly_one_activity;
                every_range_of_a_filter_admits;
                large_version_numbers_compare_as_numbers;
                a_committed_timer_is_visible_when_due;
                results_of_an_earlier_execution_are_delivered;
            }
            admin_truth {
                deleting_a_stranger_counts_nothing [Management];
                bulk_delete_spares_a_tree_in_which_a_child_runs [Management];
                bulk_delete_spares_an_instance_between_two_executions [Management];
                bulk_delete_spares_queued_starts [Management];
                a_late_child_stops_the_deletion [Management];
                pruning_by_time_takes_continued_executions [Management];
                pruning_combines_its_criteria [Management];
                a_deleted_id_begins_from_scratch [Management];
                claimed_rows_are_not_counted_as_waiting [Management];
                abandoned_rows_wait_again [Management];
                a_timer_not_yet_due_counts_as_a_timer [Management];
                times_are_real_milliseconds [Management];
                a_running_instance_has_no_output [Management];
                a_commit_without_events_can_end_an_execution [Management];
                no_output_is_not_an_empty_output [Management];
                details_follow_the_current_execution [Management];
                totals_count_each_status [Management];
                instances_are_listed_newest_first [Management];
                both_halves_read_the_same_history [Management];
                sizes_are_bytes;
                a_parent_is_for_life [Management];
            }
            drop_safety {
                a_dropped_fetch_leaves_no_lasting_lease;
                a_dropped_work_fetch_leaves_no_lasting_lease;
                a_dropped_commit_is_whole_or_absent;
                a_dropped_ack_is_whole_or_absent;
                a_dropped_long_poll_takes_nothing [LongPoll];
                dropped_calls_do_not_wear_the_store_out;
            }
            hostile_input {
                every_message_kind_comes_back;
                every_committed_message_kind_comes_back;
                every_event_kind_comes_back;
                event_ids_may_jump;
                an_endless_delay_saturates;
                an_endless_lease_saturates;
                a_timer_at_the_end_of_time_waits;
                a_delay_of_zero_is_none;
                instance_ids_come_back_as_they_were;
                ids_that_look_alike_are_different;
                an_id_is_not_a_pattern [Management];
                payloads_come_back_as_they_were;
                a_nul_character_is_kept_or_refused;
                a_nul_character_cuts_nothing_short;
                sessions_and_tags_may_have_any_name;
                forged_tokens_open_nothing;
                two_megabytes_pass;
                a_long_id_is_an_id;
            }
            wakeups {
                a_message_wakes_a_waiting_dispatcher [LongPoll];
                a_commit_wakes_a_waiting_dispatcher [LongPoll];
                the_end_of_a_lease_wakes_a_waiting_dispatcher [LongPoll];
                an_abandon_wakes_a_waiting_dispatcher [LongPoll];
                a_result_wakes_a_waiting_dispatcher [LongPoll];
                a_due_message_wakes_a_waiting_dispatcher [LongPoll];
                an_expiring_lease_wakes_a_waiting_dispatcher [LongPoll];
                an_activity_wakes_a_waiting_worker [LongPoll];
                a_commit_wakes_a_waiting_worker [LongPoll];
                an_abandon_wakes_a_waiting_worker [LongPoll];
                a_worker_with_another_tag_swallows_no_wake_up [LongPoll];
                a_worker_without_the_session_swallows_no_wake_up [LongPoll];
                a_burst_wakes_everybody [LongPoll];
                another_process_is_noticed [LongPoll, SecondHandle];
                a_commit_wakes_a_watching_client [Watch];
                a_watch_misses_no_commit [Watch];
                a_watch_may_come_before_its_instance [Watch];
                the_end_told_by_a_watch_is_the_one_that_is_read [Watch];
                an_ended_instance_is_never_called_running [Watch];
                a_deleted_instance_is_never_called_running [Management, Watch];
            }
            handlers {
                a_start_goes_to_a_node_with_its_handler [Handlers];
                a_start_names_its_version [Handlers];
                a_start_without_a_version_goes_to_any_version [Handlers];
                a_running_instance_goes_to_a_node_with_its_version [Handlers];
                a_continued_instance_goes_to_the_handler_it_asked_for [Handlers];
                a_continued_instance_may_change_its_version [Handlers];
                a_continued_instance_goes_by_no_older_start [Handlers];
                an_ended_instance_needs_no_handler [Handlers];
                a_second_life_goes_by_its_own_start [Handlers, Management];
                an_early_message_waits_for_the_handler_of_its_start [Handlers];
                messages_for_an_unknown_instance_need_no_handler [Handlers, UnknownInstanceGrace, Management];
                instances_without_code_are_not_in_the_way [Handlers];
                a_node_that_names_no_handlers_is_offered_everything;
                a_handler_does_not_replace_the_filter [Handlers];
                an_old_cancel_request_needs_no_handler [Handlers];
                a_start_without_code_can_be_cancelled [Handlers];
                a_request_to_terminate_needs_no_handler_and_no_wait [Handlers];
                a_request_to_terminate_comes_with_a_full_claim [Handlers, Bounds];
                a_cancel_request_that_was_taken_opens_nothing [Handlers];
                an_activity_goes_to_a_node_with_its_code [Handlers];
                activities_without_code_are_not_in_the_way [Handlers];
                a_name_replaces_neither_tag_nor_session [Handlers];
                a_worker_that_names_no_activities_is_handed_everything;
                a_waiting_node_is_woken_for_what_it_can_run [Handlers, LongPoll];
                an_aging_cancel_request_wakes_a_waiting_node [Handlers, LongPoll];
                a_waiting_worker_is_woken_for_its_activities [Handlers, LongPoll];
            }
            bounds {
                a_claim_takes_no_more_messages_than_asked [Bounds];
                what_a_bounded_claim_leaves_was_not_tried [Bounds, MessageAttempts];
                newcomers_stand_behind_what_a_claim_left [Bounds];
                a_claim_takes_at_least_one_message [Bounds];
                a_start_comes_with_a_full_claim [Bounds];
                a_continue_as_new_comes_with_a_full_claim [Bounds];
                a_continue_as_new_goes_before_an_older_start [Bounds];
                queue_messages_stay_behind_carried_ones [Bounds];
                queue_messages_come_after_carried_ones [Bounds];
                a_request_to_cancel_comes_with_a_full_claim [Bounds];
                no_claim_takes_more_than_a_thousand_messages [Bounds];
                no_claim_takes_more_than_four_megabytes [Bounds];
                a_message_beyond_the_bound_is_delivered [Bounds];
                a_claim_takes_no_more_new_sessions_than_asked [Bounds, BatchedWork];
                work_of_a_held_session_is_not_bounded [Bounds, BatchedWork];
            }
            ready_work {
                ready_work_is_listed_by_handler [ReadyWork];
                claimed_and_delayed_work_is_not_ready [ReadyWork];
                the_longest_wait_is_listed_first [ReadyWork];
            }
            clocks {
                what_was_ready_stays_ready [ClockSetBack];
                newcomers_are_delivered_after_a_step_back [ClockSetBack];
                what_was_given_back_stays_ready [ClockSetBack];
                a_timer_set_after_a_step_back_is_not_early [ClockSetBack];
                a_lease_taken_before_a_step_back_keeps_its_length [ClockSetBack];
            }
            incarnations {
                a_history_of_an_earlier_life_is_loaded [Incarnations, Management];
                the_life_told_by_a_claim_is_the_one_stored [Incarnations];
                each_claim_of_a_new_instance_draws_a_life [Incarnations];
                two_lives_of_an_id_differ [Incarnations, Management];
                an_activity_names_the_life_that_scheduled_it [Incarnations, Management];
                a_childs_result_for_an_earlier_life_is_not_delivered [Incarnations, Management];
                a_childs_result_for_an_earlier_life_is_kept [Incarnations, DeadLetters, Management];
                a_child_whose_parent_was_deleted_is_a_root [Incarnations, Management];
                a_childs_result_for_an_earlier_life_is_not_requeued [Incarnations, DeadLetters, Management, Requeue];
                a_childs_result_reaches_its_parent;
                each_parent_hears_of_the_refusal_of_its_start;
                an_unstarted_child_of_a_deleted_parent_can_be_deleted [Incarnations, Management];
            }
            outcome {
                a_stranger_has_no_outcome;
                a_running_instance_is_running;
                a_completed_instance_tells_its_value;
                a_failed_instance_tells_why;
                between_executions_an_instance_is_running;
                the_custom_status_comes_with_the_outcome;
                each_execution_names_its_handler;
            }
            dead_letters {
                a_message_set_aside_is_listed [DeadLetters, Management];
                the_rest_of_the_batch_stays_claimed [DeadLetters, Management];
                positions_are_those_of_the_claimed_batch [DeadLetters, Management];
                a_lost_lease_sets_nothing_aside [DeadLetters, Management];
                wrong_positions_touch_nothing_else [DeadLetters, Management];
                a_letter_is_forgotten_once [DeadLetters, Management];
                letters_are_listed_oldest_first [DeadLetters, Management];
                an_activity_set_aside_is_listed [DeadLetters, Management];
                a_lost_activity_is_not_set_aside [DeadLetters, Management];
                letters_are_found_by_number_and_by_instance [DeadLetters, Management];
                a_requeued_letter_is_delivered_once [DeadLetters, Management, Requeue];
                a_letter_for_an_earlier_life_stays_a_letter [DeadLetters, Management, Requeue, Incarnations];
            }
            heartbeats {
                the_next_attempt_finds_what_was_said_last [Heartbeats];
                the_next_claim_finds_what_was_said_last [Heartbeats];
                each_call_has_its_own_heartbeat [Heartbeats];
                a_heartbeat_extends_the_lease [Heartbeats];
                a_lost_lease_says_nothing [Heartbeats];
                what_was_said_goes_with_its_execution [Heartbeats, Management];
                a_later_life_finds_nothing_that_was_said [Heartbeats, Management];
            }
            pending_work {
                messages_and_activities_of_an_instance_are_told [PendingWork, Management];
                leases_and_attempts_are_told [PendingWork, Management];
                nothing_lies_in_the_queues_for_a_stranger [PendingWork, Management];
            }
            resting {
                an_instance_rests_for_as_long_as_asked [Resting];
                nothing_overtakes_what_rests [Resting];
                a_due_message_ends_a_rest [Resting];
                an_instance_does_not_rest_behind_an_arrival [Resting];
                an_instance_rests_though_a_full_claim_left_some [Resting, Bounds];
                a_turn_that_was_taken_over_cannot_rest [Resting];
                resuming_ends_a_rest [Resting, Pausing, Management];
            }
            held_letters {
                queue_messages_are_held_back_until_the_next_commit [HeldLetters];
                queue_messages_that_were_queued_before_are_held_back [HeldLetters];
                everything_else_passes [HeldLetters];
                a_timer_of_a_holding_instance_fires [HeldLetters];
                a_result_passes_a_crowd_of_queue_messages [HeldLetters];
                later_queue_messages_stay_behind_held_ones [HeldLetters];
                a_second_hold_keeps_the_order [HeldLetters];
                a_claim_takes_a_bounded_number_of_queue_messages [HeldLetters];
                a_holding_commit_is_a_commit [HeldLetters];
                a_lost_lease_holds_nothing_back [HeldLetters];
                only_a_commit_ends_a_hold [HeldLetters];
                a_hold_reaches_into_the_next_execution [HeldLetters];
                an_ended_instance_holds_nothing_back [HeldLetters];
                a_later_life_holds_nothing_back [HeldLetters, Management];
                a_hold_outlives_the_process [HeldLetters, Reopen];
                pausing_leaves_a_hold_as_it_is [HeldLetters, Pausing, Management];
                unreadable_queue_messages_stop_none_behind_them [HeldLetters, CorruptMessages];
                a_snapshot_has_what_is_held_back [HeldLetters, Snapshots, Management];
                held_queue_messages_are_told_as_pending [HeldLetters, PendingWork, Management];
            }
            pausing {
                messages_of_a_paused_instance_wait [Pausing, Management, Handlers];
                a_timer_of_a_paused_instance_waits [Pausing, Management];
                activities_of_a_paused_instance_wait [Pausing, Management];
                an_activity_that_comes_back_waits [Pausing, Management];
                a_turn_in_flight_commits_and_the_rest_waits [Pausing, Management];
                a_paused_instance_can_be_terminated [Pausing, Management];
                a_request_to_cancel_waits_for_the_end_of_a_pause [Pausing, Management, Handlers];
                another_life_is_not_paused [Pausing, Management];
                pausing_tells_what_became_of_it [Pausing, Management];
                a_query_finds_paused_instances [Pausing, Management];
                a_pause_outlives_the_process [Reopen, Pausing, Management];
            }
            snapshots {
                a_restored_instance_is_equal [Snapshots, Management, Incarnations];
                a_finished_instance_is_restored_as_it_ended [Snapshots, Management];
                labels_come_along [Snapshots, Management, Labelling];
                a_memo_comes_along [Snapshots, Management];
                heartbeats_come_along [Snapshots, Management, Heartbeats];
                dead_letters_come_along [Snapshots, Management, DeadLetters];
                everything_that_is_held_is_listed [Snapshots, Management, DeadLetters];
                leases_are_no_part_of_a_snapshot [Snapshots, Management];
                restored_activities_are_run [Snapshots, Management];
                a_restored_timer_fires_when_it_is_due [Snapshots, Management];
                restored_messages_keep_order_and_attempts [Snapshots, Management];
                what_rests_comes_first_where_it_is_restored [Snapshots, Management, Resting];
                held_back_letters_come_along [Snapshots, Management, HeldLetters];
                a_restored_child_reports_to_its_parent [Snapshots, Management];
                an_unborn_child_comes_along [Snapshots, Management];
                a_restored_instance_begins_its_next_execution [Snapshots, Management, Bounds];
                a_restored_pause_holds [Snapshots, Management, Pausing];
                a_restored_start_begins_when_it_is_due [Snapshots, Management];
                a_restored_request_to_cancel_is_carried_out [Snapshots, Management];
                restoring_over_an_instance_changes_nothing [Snapshots, Management];
                a_contradictory_snapshot_leaves_nothing [Snapshots, Management];
                a_dropped_restore_is_whole_or_absent [Snapshots, Management];
                a_long_history_is_restored_whole [Snapshots, Management];
                a_family_is_told_parents_first [Snapshots, Management, Incarnations];
                a_family_is_read_from_one_state [Snapshots, Management, Incarnations];
            }
            closing {
                a_closed_store_takes_and_gives_nothing [Closing, Management, DeadLetters];
                a_closed_store_gives_no_duty [Closing, Duties, Management];
                a_closed_store_can_be_moved [Closing, Snapshots, Management];
                a_closed_store_stays_closed [Closing, Reopen, Management];
                a_second_handle_finds_the_store_closed [Closing, SecondHandle, Management];
                closing_compares_what_the_store_is_closed_for [Closing, Management];
                of_two_who_close_a_store_one_does [Closing, SecondHandle, Management];
                a_restore_compares_what_the_store_is_closed_for [Closing, Snapshots, Management];
                the_holders_of_leases_change_nothing_in_a_closed_store [Closing, Snapshots, Management, DeadLetters, Pausing, Resting, Heartbeats];
                operators_change_nothing_in_a_closed_store [Closing, Snapshots, Management, DeadLetters, Pausing, Labelling, Requeue];
                an_idle_closed_store_refuses_claims [Closing, Management];
            }
            rewinding {
                a_failed_instance_begins_another_execution [Rewinding, Management];
                changes_of_a_failed_execution_are_not_built_on [Rewinding, Management];
                status_and_labels_are_as_they_were [Rewinding, Labelling, Management];
                a_status_of_the_dropped_part_is_gone [Rewinding, Management];
                what_a_call_said_outlasts_a_rewind [Rewinding, Heartbeats, Management];
                a_rewound_execution_has_its_own_pinned_version [Rewinding, Management];
            }
            starts {
                a_list_shows_the_memo_of_a_start [Management];
                a_memo_lasts_over_executions [Management];
                a_later_life_has_a_memo_of_its_own [Management];
                a_memo_is_no_key_value_and_no_message;
                what_a_start_gave_holds_no_message_back;
                a_deadline_comes_when_it_is_due;
                a_memo_outlives_the_process [Reopen, Management];
            }
            submissions {
                of_many_starts_that_must_be_new_one_is_accepted [Submissions];
                of_starts_by_two_handles_one_is_accepted [Submissions, SecondHandle];
                a_queued_start_counts_as_there [Submissions];
                a_refused_submission_leaves_nothing [Submissions];
                messages_go_to_what_is_there [Submissions];
                a_start_and_its_messages_come_together [Submissions];
                a_delayed_start_begins_with_its_messages [Submissions];
                a_replaced_instance_leaves_nothing [Submissions, Management];
                nothing_is_replaced_while_a_descendant_runs [Submissions, Management];
                nothing_comes_between_the_old_life_and_the_new [Submissions, Management];
                a_message_needs_somebody_who_reads_it [Submissions];
                a_stray_item_stores_nothing [Submissions];
                a_closed_store_takes_no_submission [Submissions, Closing, Management];
                a_submission_outlives_the_process [Submissions, Reopen];
            }
            labels {
                an_instance_begins_with_its_labels [Management];
                the_code_sets_and_removes_labels [Management];
                labels_last_over_executions [Management];
                an_operator_changes_labels [Labelling, Management];
                too_many_labels_change_nothing [Labelling, Management];
                an_operators_labels_outlive_executions [Labelling, Management];
                labels_are_no_key_values [Labelling, Management];
                a_later_life_has_labels_of_its_own [Management];
                a_query_finds_instances_by_label [Management];
                labelled_pages_meet_each_instance_once [Management];
                instances_are_counted_by_label [Management];
                labels_outlive_the_process [Reopen, Labelling, Management];
            }
            nodes {
                a_node_that_announces_itself_is_listed [Nodes, Management];
                a_silent_node_is_gone [Nodes, Management];
                a_node_that_leaves_is_forgotten [Nodes, Management];
                nodes_that_were_gone_for_long_are_forgotten [Nodes, Management];
            }
            duties {
                one_node_holds_a_duty [Duties, Management];
                a_duty_passes_on_when_its_holder_is_silent [Duties, Management];
                a_duty_that_is_given_back_is_free [Duties, Management];
            }
            query {
                every_instance_is_met_once_page_by_page [Management];
                pages_stay_whole_while_instances_come_and_go [Management];
                a_page_follows_the_order_asked_for [Management];
                a_cursor_of_another_order_is_refused [Management];
                a_query_admits_what_all_its_criteria_admit [Management];
                an_id_prefix_is_no_pattern [Management];
                families_are_found_by_parent_and_root [Management];
                times_bound_a_query [Management];
                a_summary_tells_what_a_list_shows [Management];
                instances_with_dead_letters_are_found [DeadLetters, Management];
                counts_take_no_notice_of_pages [Management];
                counts_are_grouped_largest_first [Management];
            }
            durability {
                messages_outlive_the_process [Reopen];
                a_committed_turn_outlives_the_process [Reopen];
                a_completed_activity_outlives_the_process [Reopen];
                leases_and_attempts_outlive_the_process [Reopen];
                a_token_is_good_after_reopening [Reopen];
                a_deletion_outlives_the_process [Reopen, Management];
                a_dead_letter_outlives_the_process [Reopen, DeadLetters, Management];
            }
            handles {
                two_handles_share_leases [SecondHandle];
                a_commit_is_seen_by_both_handles [SecondHandle];
                a_fast_machine_takes_nothing_early [SkewedHandle];
                a_slow_machine_takes_nothing_early [SkewedHandle];
                a_lease_of_a_slow_machine_holds [SkewedHandle];
                a_lease_of_a_fast_machine_ends [SkewedHandle];
                a_fast_machine_sees_no_timer_early [SkewedHandle];
            }
        }
    };
}
