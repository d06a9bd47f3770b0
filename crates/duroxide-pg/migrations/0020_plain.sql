-- A turn that a node decided on before its messages were stored (0018), alone in its exchange and of the plainest kind: a start or one
-- completed activity before it, events and at most one activity after it. It needs a third of the statements that `open_inboxes`,
-- `check_early`, `commit_turns`, `ack_work` and `claim_work` make of it, and writes the same.

-- `p_event` is up to where the node knows the history, NULL for an instance that the turn begins; `p_name`, `p_version` and `p_pinned`
-- are for that instance alone. `a_` is the activity whose result the turn was decided on, `w_` the one that it asks for; with `w_token` it
-- is leased from the beginning, to a worker of the node that waits. `o_is_done` is false, and nothing is written, if the instance has an
-- inbox: then the turn takes the long way.
CREATE FUNCTION commit_plain(p_expected bigint, p_instance text, p_incarnation bigint, p_execution bigint, p_event bigint, p_name text,
    p_version text, p_pinned text, p_lane text, p_status text, p_output text, p_ends boolean,
    e_id bigint[], e_type text[], e_data text[], a_id bigint, a_token uuid,
    w_activity bigint, w_name text, w_item text, w_tag text, w_lane text, w_token uuid, w_lock bigint)
RETURNS TABLE (o_is_done boolean, o_now bigint, o_work bigint, o_custom_status text, o_custom_status_version bigint)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_last bigint;
    v_status text;
    v_is_early boolean;
    v_has_keys boolean;
    v_session text;
    v_looked timestamptz;
BEGIN
    -- A transaction that sends something to the instance waits here until the turn is stored. What has messages has an inbox.
    INSERT INTO inboxes (instance_id, lane, ready_at) VALUES (p_instance, '', 0) ON CONFLICT (instance_id) DO NOTHING;
    IF NOT FOUND THEN
        o_is_done := false;
        RETURN NEXT;
        RETURN;
    END IF;
    o_now := now_ms(p_expected);
    v_looked := clock_timestamp();
    IF p_event IS NULL THEN
        SELECT (SELECT true FROM instances AS i WHERE i.instance_id = p_instance)
            OR (SELECT true FROM history AS h WHERE h.instance_id = p_instance LIMIT 1)
            OR (SELECT true FROM executions AS e WHERE e.instance_id = p_instance LIMIT 1)
            OR (SELECT true FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.visible_at <= o_now LIMIT 1)
        INTO v_is_early;
        IF v_is_early THEN
            PERFORM refuse_early('the instance does not stand as its node took it to', ARRAY[p_instance]);
        END IF;
        INSERT INTO instances (instance_id, orchestration_name, orchestration_version, current_execution_id, created_at, updated_at,
            incarnation, lane)
        VALUES (p_instance, p_name, p_version, p_execution, o_now, o_now, p_incarnation, coalesce(p_lane, ''));
        INSERT INTO executions (instance_id, execution_id, status, output, started_at, completed_at, pinned)
        VALUES (p_instance, p_execution, coalesce(p_status, 'Running'), p_output, o_now,
            CASE WHEN p_status <> 'Running' THEN o_now END, p_pinned);
        o_custom_status_version := 0;
    ELSE
        -- A deletion that finds no inbox does not wait for one: it holds the row of the instance.
        UPDATE instances AS i SET updated_at = o_now, lane = coalesce(p_lane, i.lane)
        WHERE i.instance_id = p_instance AND i.incarnation = p_incarnation AND i.current_execution_id = p_execution
          AND i.paused_at IS NULL AND i.letters IS NULL
        RETURNING i.custom_status, i.custom_status_version,
            (SELECT max(h.event_id) FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = p_execution),
            (SELECT e.status FROM executions AS e WHERE e.instance_id = p_instance AND e.execution_id = p_execution),
            (SELECT true FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.visible_at <= o_now LIMIT 1),
            (SELECT true FROM kv_delta AS d WHERE d.instance_id = p_instance LIMIT 1)
        INTO o_custom_status, o_custom_status_version, v_last, v_status, v_is_early, v_has_keys;
        IF NOT FOUND OR v_last IS DISTINCT FROM p_event OR v_status IS NULL OR v_is_early THEN
            PERFORM refuse_early('the instance does not stand as its node took it to', ARRAY[p_instance]);
        END IF;
        IF p_status <> 'Running' OR p_output IS NOT NULL OR p_status <> v_status THEN
            UPDATE executions AS e SET status = p_status, output = p_output,
                completed_at = CASE WHEN p_status <> 'Running' THEN o_now END
            WHERE e.instance_id = p_instance AND e.execution_id = p_execution;
        END IF;
        IF v_has_keys AND p_ends AND p_status <> 'Failed' THEN
            PERFORM merge_keys(ARRAY[p_instance]);
        END IF;
    END IF;
    INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
    SELECT p_instance, p_execution, unnest(e_id), unnest(e_type), unnest(e_data), o_now;
    -- The row of the instance may have been waited for, and leases begin and end by the clock.
    IF clock_timestamp() - v_looked > interval '10 ms' THEN
        o_now := now_ms(p_expected);
    END IF;
    IF w_activity IS NOT NULL THEN
        INSERT INTO worker_queue (instance_id, execution_id, activity_id, name, work_item, tag, lane, visible_at, created_at,
            incarnation, lock_token, locked_until, attempt_count)
        VALUES (p_instance, p_execution, w_activity, w_name, w_item, w_tag, w_lane, o_now, o_now, p_incarnation, w_token,
            coalesce(o_now + w_lock, 0), CASE WHEN w_token IS NULL THEN 0 ELSE 1 END)
        RETURNING id INTO o_work;
    END IF;
    IF a_id IS NOT NULL THEN
        DELETE FROM worker_queue AS w WHERE w.id = a_id AND w.lock_token = a_token AND w.locked_until > o_now
        RETURNING w.session_id INTO v_session;
        IF NOT FOUND THEN
            PERFORM refuse_early('the activity whose result it decided on was lost');
        END IF;
        IF v_session IS NOT NULL THEN
            UPDATE sessions AS s SET last_activity_at = o_now WHERE s.session_id = v_session AND s.locked_until > o_now;
        END IF;
    END IF;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance;
    o_is_done := true;
    RETURN NEXT;
END $$;
