//! The list of cases about an instance from its start to its deletion, and about what operators do to it and to its
//! store. In: the groups before these. Out: the same with these. A line has the function of a case and what it needs;
//! the cases themselves are in `cases/`.

/// Adds its groups to those before them.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases_lives {
    ([$($callback:tt)*] [$($arguments:tt)*] $($before:tt)*) => {
        $($callback)* {
            [$($arguments)*]
            $($before)*
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
                a_turn_that_continues_as_new_answers_who_asked;
                a_refusal_reaches_the_next_execution_of_who_asked;
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
                a_dead_lettered_message_is_listed [DeadLetters, Management];
                the_rest_of_the_batch_stays_claimed [DeadLetters, Management];
                positions_are_those_of_the_claimed_batch [DeadLetters, Management];
                a_lost_lease_dead_letters_nothing [DeadLetters, Management];
                wrong_positions_touch_nothing_else [DeadLetters, Management];
                a_dead_letter_is_forgotten_once [DeadLetters, Management];
                dead_letters_are_listed_oldest_first [DeadLetters, Management];
                a_dead_lettered_activity_is_listed [DeadLetters, Management];
                a_lost_activity_is_not_dead_lettered [DeadLetters, Management];
                dead_letters_are_found_by_number_and_by_instance [DeadLetters, Management];
                a_requeued_dead_letter_is_delivered_once [DeadLetters, Management, Requeue];
                a_dead_letter_for_an_earlier_life_stays_one [DeadLetters, Management, Requeue, Incarnations];
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
            held_queue_messages {
                queue_messages_are_held_back_until_the_next_commit [HeldQueueMessages];
                queue_messages_that_were_queued_before_are_held_back [HeldQueueMessages];
                everything_else_passes [HeldQueueMessages];
                a_timer_of_a_holding_instance_fires [HeldQueueMessages];
                a_result_passes_a_crowd_of_queue_messages [HeldQueueMessages];
                later_queue_messages_stay_behind_held_ones [HeldQueueMessages];
                a_second_hold_keeps_the_order [HeldQueueMessages];
                a_claim_takes_a_bounded_number_of_queue_messages [HeldQueueMessages];
                a_holding_commit_is_a_commit [HeldQueueMessages];
                a_lost_lease_holds_nothing_back [HeldQueueMessages];
                only_a_commit_ends_a_hold [HeldQueueMessages];
                a_hold_reaches_into_the_next_execution [HeldQueueMessages];
                an_ended_instance_holds_nothing_back [HeldQueueMessages];
                a_later_life_holds_nothing_back [HeldQueueMessages, Management];
                a_hold_outlives_the_process [HeldQueueMessages, Reopen];
                pausing_leaves_a_hold_as_it_is [HeldQueueMessages, Pausing, Management];
                unreadable_queue_messages_stop_none_behind_them [HeldQueueMessages, CorruptMessages];
                a_snapshot_has_what_is_held_back [HeldQueueMessages, Snapshots, Management];
                held_queue_messages_are_told_as_pending [HeldQueueMessages, PendingWork, Management];
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
                held_back_queue_messages_come_along [Snapshots, Management, HeldQueueMessages];
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
                a_repeated_request_is_answered_as_the_first_time [Submissions];
                another_request_is_not_taken_for_the_first [Submissions, Management];
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
                instances_are_found_by_what_they_wait_for [Management];
                waiting_instances_are_met_once_and_counted [Management];
                counts_take_no_notice_of_pages [Management];
                counts_are_grouped_largest_first [Management];
            }
            one_life {
                a_list_tells_which_life_it_is [Lives, Management];
                a_message_for_one_life_reaches_no_other [Lives, Submissions, Management];
                a_message_for_a_life_that_is_gone_is_not_kept [Lives, Submissions, Management];
                what_has_ended_takes_what_is_about_its_end [Lives, Submissions, Management];
                a_pause_of_one_life_leaves_others_alone [Lives, Pausing, Management];
            }
            blocking {
                a_blocked_instance_is_found_until_it_goes_on [Blocking, Management];
                what_has_ended_is_not_blocked [Blocking, Management];
                a_lost_lease_notes_nothing [Blocking, Management];
                a_later_life_is_not_blocked [Blocking, Management];
                what_has_not_begun_keeps_no_note [Blocking, Management];
                a_note_outlives_the_process [Blocking, Reopen, Management];
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
