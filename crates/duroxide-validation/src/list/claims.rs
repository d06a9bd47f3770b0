//! What a claim takes and leaves, who may write, and what input, wake-ups and clocks may do to it.

/// Adds its groups to those before them.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases_claims {
    ([$($callback:tt)*] [$($arguments:tt)*] $($before:tt)*) => {
        $crate::__cases_lives! {
            [$($callback)*] [$($arguments)*]
            $($before)*
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
                a_commit_and_a_takeover_that_meet_exclude_each_other;
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
                a_turn_that_does_more_than_decide_has_its_claim_stored [AttemptCounts];
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
                one_claim_takes_a_bounded_number_of_messages_in_all [BoundsInAll, BatchedTurns];
                one_claim_takes_a_bounded_number_of_bytes_in_all [BoundsInAll, BatchedTurns];
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
        }
    };
}
