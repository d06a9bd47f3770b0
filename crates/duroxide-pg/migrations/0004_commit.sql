-- Queue messages that are held back have a time that no other message has, the end of time: they cost claims nothing. The next ones
-- come back, as many as a claim takes, for these instances if their hold is over; no later than any other message, so that those that
-- came later and are not hidden yet stand behind them. The inboxes are locked already.
CREATE FUNCTION release_letters(p_instance text[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_ids bigint[];
    one text;
BEGIN
    FOR one IN SELECT i.instance_id FROM instances AS i WHERE i.instance_id = ANY (p_instance) AND i.letters = 2 LOOP
        SELECT array_agg(o.id) INTO v_ids FROM (
            SELECT o.id FROM orchestrator_queue AS o
            WHERE o.instance_id = one AND o.visible_at = 9223372036854775807 ORDER BY o.id LIMIT 64) AS o;
        UPDATE orchestrator_queue AS q SET visible_at = least(q.created_at,
            (SELECT min(f.visible_at) FROM orchestrator_queue AS f WHERE f.instance_id = one))
        WHERE q.instance_id = one AND q.visible_at = 9223372036854775807 AND q.id = ANY (v_ids);
        IF v_ids IS NULL OR cardinality(v_ids) < 64 THEN
            UPDATE instances AS i SET letters = NULL WHERE i.instance_id = one;
        END IF;
    END LOOP;
END $$;

-- What the executions of these instances have changed becomes what the instances have: the executions have ended.
CREATE FUNCTION merge_keys(p_instance text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kv_store (instance_id, key, value, last_updated_at_ms)
    SELECT d.instance_id, d.key, d.value, d.last_updated_at_ms FROM kv_delta AS d
    WHERE d.instance_id = ANY (p_instance) AND d.value IS NOT NULL
    ON CONFLICT (instance_id, key) DO UPDATE
    SET value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
    DELETE FROM kv_store AS s USING kv_delta AS d
    WHERE d.instance_id = ANY (p_instance) AND d.value IS NULL AND s.instance_id = d.instance_id AND s.key = d.key;
    DELETE FROM kv_delta AS d WHERE d.instance_id = ANY (p_instance);
END $$;

-- Rows of the queues are joined by `= ANY (ARRAY[key])`, here and in all functions that come later. The tables are nearly empty
-- whenever they are analyzed, and with a plain `= key` PostgreSQL thinks that walking an index from end to end, past all that cannot be
-- vacuumed, is as cheap as looking the rows up. This condition gives it no order to walk in: it can only be looked up, row by row.

-- Turns are committed, many at once. Every turn is fenced by its own lease: if one of them lost it, nothing is written and the rows
-- say which; the caller leaves those out and comes again. The inboxes are locked and open already.

CREATE FUNCTION commit_turns(
    p_expected bigint,
    -- One element for each turn. `c_custom`: 0 no custom status, 1 one that clears it, 2 one that sets it. `c_loud`: the turn says
    -- something about its execution beyond that it runs.
    c_instance text[], c_token uuid[], c_execution bigint[], c_name text[], c_version text[], c_parent text[], c_lane text[],
    c_incarnation bigint[], c_status text[], c_output text[], c_pinned text[], c_custom integer[], c_custom_status text[],
    -- `c_holds`: queue messages are held back until the next commit.
    c_loud boolean[], c_ends boolean[], c_holds boolean[],
    e_instance text[], e_execution bigint[], e_id bigint[], e_type text[], e_data text[],
    w_instance text[], w_execution bigint[], w_activity bigint[], w_name text[], w_item text[], w_session text[], w_tag text[],
    -- With a token: who gets the activity, and for how many milliseconds.
    w_lane text[], w_token uuid[], w_lock bigint[],
    -- `m_turn` is the place of the turn that sends the message, `m_parent` whose child it starts.
    m_turn integer[], m_instance text[], m_kind text[], m_item text[], m_due bigint[], m_begins text[], m_execution bigint[],
    m_operation bigint[], m_parent text[], m_notice boolean[],
    -- `k_op`: 0 set, 1 clear, 2 clear all.
    k_instance text[], k_op integer[], k_key text[], k_value text[], k_at bigint[],
    -- Each label of an instance once, without a value if it goes; and what an instance that begins has for people who look at it.
    l_instance text[], l_key text[], l_value text[], n_instance text[], n_memo text[],
    x_instance text[], x_execution bigint[], x_activity bigint[],
    -- Instances among those of the turns that are sent something later in this transaction: their inboxes stay.
    p_fed text[],
    -- Whether a lost lease takes the whole transaction back (0018).
    p_strict boolean DEFAULT false)
RETURNS TABLE (turn integer, problem text, custom_status text, custom_status_version bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := now_ms(p_expected);
    v_child text[];
    v_parent_incarnation bigint[];
    v_ended text[];
    v_merged text[];
    v_later text[];
    v_senders bigint[];
    v_dead integer[];
    v_lent bigint[];
    v_rows bigint;
    v_drains boolean;
    v_drain boolean;
    k record;
BEGIN
    RETURN QUERY SELECT c.n::integer, CASE WHEN b.lock_token = c.token THEN 'expired' ELSE 'unknown' END, NULL::text, NULL::bigint
        FROM unnest(c_instance, c_token) WITH ORDINALITY AS c (instance_id, token, n)
        LEFT JOIN inboxes AS b ON b.instance_id = ANY (ARRAY[c.instance_id])
        WHERE (b.lock_token = c.token AND b.locked_until > v_now) IS NOT TRUE;
    IF FOUND THEN
        IF p_strict THEN
            PERFORM refuse_early('a turn beside it has lost its lease');
        END IF;
        RETURN;
    END IF;

    -- The messages of the claims go; those that started a child tell which life of the parent sent them.
    WITH gone AS (
        DELETE FROM orchestrator_queue AS q USING inboxes AS b
        WHERE b.instance_id = ANY (c_instance) AND q.instance_id = ANY (ARRAY[b.instance_id])
          AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)
        RETURNING q.instance_id, q.id, q.sender_incarnation)
    SELECT array_agg(g.instance_id ORDER BY g.id), array_agg(g.sender_incarnation ORDER BY g.id) INTO v_child, v_parent_incarnation
    FROM gone AS g WHERE g.sender_incarnation IS NOT NULL;

    IF cardinality(e_id) > 0 THEN
        INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
        SELECT e.instance_id, e.execution_id, e.id, e.type, e.data, v_now
        FROM unnest(e_instance, e_execution, e_id, e_type, e_data) AS e (instance_id, execution_id, id, type, data);
    END IF;

    WITH written AS (
    INSERT INTO instances AS i (instance_id, orchestration_name, orchestration_version, current_execution_id, parent_instance_id,
        custom_status, custom_status_version, created_at, updated_at, incarnation, parent_incarnation, lane, letters)
    SELECT c.instance_id, c.name, c.version, c.execution_id, c.parent, c.custom_status, (c.custom > 0)::integer, v_now, v_now,
        c.incarnation, CASE WHEN c.parent IS NOT NULL THEN
            (SELECT s.incarnation FROM unnest(v_child, v_parent_incarnation) WITH ORDINALITY AS s (instance_id, incarnation, n)
             WHERE s.instance_id = c.instance_id ORDER BY s.n LIMIT 1) END, coalesce(c.lane, ''), CASE WHEN c.holds THEN 1 END
    FROM unnest(c_instance, c_name, c_version, c_execution, c_parent, c_custom_status, c_custom, c_incarnation, c_lane, c_holds)
        AS c (instance_id, name, version, execution_id, parent, custom_status, custom, incarnation, lane, holds)
    WHERE c.name IS NOT NULL
    ON CONFLICT (instance_id) DO UPDATE SET
        orchestration_name = excluded.orchestration_name, orchestration_version = excluded.orchestration_version,
        current_execution_id = greatest(i.current_execution_id, excluded.current_execution_id),
        custom_status = CASE WHEN excluded.custom_status_version > 0 THEN excluded.custom_status ELSE i.custom_status END,
        custom_status_version = i.custom_status_version + excluded.custom_status_version,
        updated_at = excluded.updated_at, lane = excluded.lane,
        letters = CASE WHEN excluded.letters = 1 THEN 1 WHEN i.letters IS NOT NULL THEN 2 END
    RETURNING i.letters)
    SELECT count(*), bool_or(w.letters = 2) INTO v_rows, v_drains FROM written AS w;
    IF v_rows < cardinality(c_instance) THEN
        WITH written AS (
        UPDATE instances AS i SET
            current_execution_id = greatest(i.current_execution_id, c.execution_id), updated_at = v_now,
            custom_status = CASE WHEN c.custom > 0 THEN c.custom_status ELSE i.custom_status END,
            custom_status_version = i.custom_status_version + (c.custom > 0)::integer,
            lane = CASE WHEN c.lane IS NOT NULL THEN c.lane
                        WHEN c.pinned IS NULL THEN i.lane
                        ELSE json_build_array(i.orchestration_name, i.orchestration_version, c.pinned)::text END,
            letters = CASE WHEN c.holds THEN 1 WHEN i.letters IS NOT NULL THEN 2 END
        FROM unnest(c_instance, c_name, c_execution, c_custom, c_custom_status, c_lane, c_pinned, c_holds)
            AS c (instance_id, name, execution_id, custom, custom_status, lane, pinned, holds)
        WHERE c.name IS NULL AND i.instance_id = c.instance_id
        RETURNING i.letters)
        SELECT bool_or(w.letters = 2) INTO v_drain FROM written AS w;
    END IF;

    IF true = ANY (c_loud) THEN
        INSERT INTO executions AS e (instance_id, execution_id, status, output, started_at, completed_at, pinned)
        SELECT c.instance_id, c.execution_id, coalesce(c.status, 'Running'), c.output, v_now,
            CASE WHEN c.status <> 'Running' THEN v_now END, c.pinned
        FROM unnest(c_instance, c_execution, c_status, c_output, c_pinned, c_loud)
            AS c (instance_id, execution_id, status, output, pinned, loud)
        WHERE c.loud
        ON CONFLICT (instance_id, execution_id) DO UPDATE SET
            status = excluded.status, output = excluded.output, completed_at = excluded.completed_at,
            pinned = coalesce(excluded.pinned, e.pinned);
    END IF;
    IF false = ANY (c_loud) THEN
        INSERT INTO executions (instance_id, execution_id, status, started_at, pinned)
        SELECT c.instance_id, c.execution_id, 'Running', v_now, c.pinned
        FROM unnest(c_instance, c_execution, c_pinned, c_loud) AS c (instance_id, execution_id, pinned, loud)
        WHERE NOT c.loud
        ON CONFLICT (instance_id, execution_id) DO NOTHING;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        -- Those that were there already may have to be put right.
        IF v_rows < cardinality(array_positions(c_loud, false)) THEN
            UPDATE executions AS e SET pinned = coalesce(c.pinned, e.pinned), status = coalesce(c.status, e.status),
                output = CASE WHEN c.status IS NULL THEN e.output END,
                completed_at = CASE WHEN c.status IS NULL THEN e.completed_at END
            FROM unnest(c_instance, c_execution, c_status, c_pinned, c_loud) AS c (instance_id, execution_id, status, pinned, loud)
            WHERE NOT c.loud AND e.instance_id = c.instance_id AND e.execution_id = c.execution_id
              AND (c.pinned <> e.pinned OR (c.pinned IS NOT NULL AND e.pinned IS NULL) OR c.status <> e.status);
        END IF;
    END IF;

    -- A turn that begins an execution after another one: what that one has changed and not merged, because it failed, is dropped.
    IF 1 = ANY (e_id) THEN
        SELECT array_agg(e.instance_id) INTO v_later FROM unnest(e_instance, e_execution, e_id) AS e (instance_id, execution_id, id)
        WHERE e.id = 1 AND e.execution_id > 1;
        IF v_later IS NOT NULL THEN
            DELETE FROM kv_delta AS d WHERE d.instance_id = ANY (v_later);
        END IF;
    END IF;

    FOR k IN SELECT c.* FROM unnest(k_instance, k_op, k_key, k_value, k_at) WITH ORDINALITY AS c (instance_id, op, key, value, at, n)
             ORDER BY c.n LOOP
        IF k.op = 2 THEN
            UPDATE kv_delta AS d SET value = NULL, last_updated_at_ms = v_now WHERE d.instance_id = k.instance_id;
            INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms)
            SELECT s.instance_id, s.key, NULL, v_now FROM kv_store AS s WHERE s.instance_id = k.instance_id
            ON CONFLICT (instance_id, key) DO NOTHING;
        ELSE
            INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms)
            VALUES (k.instance_id, k.key, k.value, coalesce(k.at, v_now))
            ON CONFLICT (instance_id, key) DO UPDATE
            SET value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        END IF;
    END LOOP;
    IF cardinality(l_instance) > 0 THEN
        PERFORM commit_labels(l_instance, l_key, l_value);
    END IF;
    IF cardinality(n_instance) > 0 THEN
        UPDATE instances AS i SET memo = n.memo FROM unnest(n_instance, n_memo) AS n (instance_id, memo)
        WHERE i.instance_id = n.instance_id;
    END IF;

    SELECT array_agg(c.instance_id) INTO v_ended FROM unnest(c_instance, c_ends) AS c (instance_id, ends) WHERE c.ends;
    IF v_ended IS NOT NULL THEN
        -- What a failed execution has changed stays apart: it may be rewound.
        SELECT array_agg(c.instance_id) INTO v_merged FROM unnest(c_instance, c_ends, c_status) AS c (instance_id, ends, status)
        WHERE c.ends AND c.status <> 'Failed';
        IF EXISTS (SELECT 1 FROM kv_delta AS d WHERE d.instance_id = ANY (v_merged)) THEN
            PERFORM merge_keys(v_merged);
        END IF;
        -- The execution has ended: its timers would fire without effect.
        DELETE FROM orchestrator_queue AS q
        WHERE q.instance_id = ANY (v_ended) AND q.visible_at > v_now AND q.visible_at < 9223372036854775807
          AND q.kind = 'TimerFired';
    END IF;

    IF cardinality(w_instance) > 0 THEN
        v_lent := enqueue_work(p_expected, w_instance, w_execution, w_activity, w_name, w_item, w_session, w_tag, w_lane, w_token,
            w_lock);
    END IF;
    -- After the scheduling: what was scheduled and cancelled in the same turn nets to nothing.
    IF cardinality(x_instance) > 0 THEN
        DELETE FROM worker_queue AS w
        USING unnest(x_instance, x_execution, x_activity) AS x (instance_id, execution_id, activity_id)
        WHERE w.instance_id = ANY (ARRAY[x.instance_id]) AND w.execution_id = x.execution_id
          AND w.activity_id = x.activity_id;
    END IF;

    -- Which activities were leased: the token as the problem, the life of the instance as the custom status, the number as its version.
    IF v_lent IS NOT NULL THEN
        RETURN QUERY SELECT -1, w.lock_token::text, w.incarnation::text, w.id FROM worker_queue AS w WHERE w.id = ANY (v_lent);
    END IF;

    IF cardinality(m_instance) > 0 THEN
        -- How a child ended reaches only the life of the parent that started it.
        IF true = ANY (m_notice) THEN
            SELECT array_agg(m.n::integer) INTO v_dead
            FROM unnest(m_turn, m_instance, m_notice) WITH ORDINALITY AS m (turn, instance_id, notice, n)
            CROSS JOIN LATERAL (
                SELECT array_agg(l.incarnation) AS incarnations FROM (
                    SELECT s.incarnation FROM unnest(v_child, v_parent_incarnation) AS s (instance_id, incarnation)
                    WHERE s.instance_id = c_instance[m.turn]
                    UNION ALL
                    SELECT i.parent_incarnation FROM instances AS i
                    WHERE i.instance_id = c_instance[m.turn] AND i.parent_incarnation IS NOT NULL) AS l) AS p
            WHERE m.notice AND p.incarnations IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM instances AS i WHERE i.instance_id = m.instance_id AND i.incarnation = ANY (p.incarnations));
            INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at)
            SELECT 'orchestrator', m_instance[d], m_item[d], 'the instance that started the child was deleted', v_now
            FROM unnest(v_dead) AS d;
        END IF;
        -- The start of a child is stamped with the life of the instance that starts it.
        SELECT array_agg(CASE WHEN m.parent = c_instance[m.turn] THEN i.incarnation END ORDER BY m.n) INTO v_senders
        FROM unnest(m_turn, m_parent) WITH ORDINALITY AS m (turn, parent, n)
        LEFT JOIN instances AS i ON i.instance_id = m.parent;
        INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, begins, execution_id, operation_id,
            sender_incarnation)
        SELECT m.instance_id, coalesce(due_ms(m.due), enqueued_ms(p_expected)), m.kind, m.item, v_now, m.begins, m.execution_id,
            m.operation_id, m.sender
        FROM unnest(m_instance, m_kind, m_item, m_due, m_begins, m_execution, m_operation, v_senders) WITH ORDINALITY
            AS m (instance_id, kind, item, due, begins, execution_id, operation_id, sender, n)
        WHERE v_dead IS NULL OR m.n <> ALL (v_dead)
        ORDER BY m.n;
    END IF;

    IF v_drains OR v_drain THEN
        PERFORM release_letters(c_instance);
    END IF;
    -- The leases end. An inbox stays as long as there are messages.
    DELETE FROM inboxes AS b WHERE b.instance_id = ANY (c_instance) AND b.instance_id <> ALL (p_fed)
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q
                        WHERE q.instance_id = ANY (ARRAY[b.instance_id]));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows < cardinality(c_instance) THEN
        PERFORM settle_inboxes(c_instance, p_fed);
        -- Something is left, perhaps for now: from when on it is ready.
        RETURN QUERY SELECT 0, NULL::text, NULL::text, min(b.ready_at) FROM inboxes AS b WHERE b.instance_id = ANY (c_instance);
    END IF;

    IF v_ended IS NOT NULL THEN
        RETURN QUERY SELECT c.n::integer, NULL::text, i.custom_status, i.custom_status_version
            FROM unnest(c_instance, c_ends) WITH ORDINALITY AS c (instance_id, ends, n)
            JOIN instances AS i ON i.instance_id = c.instance_id WHERE c.ends;
    END IF;
END $$;
