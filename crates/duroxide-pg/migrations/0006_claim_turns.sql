-- Instances are claimed: with their lease and all their visible messages, in one statement; `load_turns` reads the histories that
-- their claimer does not hold.
--
-- A claim goes lane by lane, and knows two lists of lanes: those its node has code for and those it has none for. The answer
-- names a lane on neither list, and the node decides. `p_barred` are lanes of engine versions that the node cannot even replay.

-- Whether an instance without a row and without a visible start can be claimed: it has a history. A lane tells its engine version.
CREATE FUNCTION has_history_only(p_instance text, p_lane text) RETURNS boolean LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    v_execution bigint;
    v_pinned text;
BEGIN
    SELECT e.execution_id, e.pinned INTO v_execution, v_pinned FROM executions AS e WHERE e.instance_id = p_instance
    ORDER BY e.execution_id DESC LIMIT 1;
    RETURN EXISTS (SELECT 1 FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = coalesce(v_execution, 1))
        AND (v_pinned IS NULL OR p_lane = json_build_array(NULL, NULL, v_pinned)::text);
END $$;

-- An inbox that was ready and cannot be claimed: nothing is visible, or no start of the instance has come yet. A message for such an
-- instance may have overtaken its start; it becomes a dead letter once it has waited for the grace period. Tells how many did.
CREATE FUNCTION settle_stray(p_instance text, p_now bigint, p_grace bigint, p_max bigint) RETURNS bigint LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    v_next bigint;
    v_pinned text;
    v_is_known boolean;
    v_rows bigint := 0;
BEGIN
    SELECT min(q.visible_at) INTO v_next FROM orchestrator_queue AS q WHERE q.instance_id = p_instance;
    IF v_next IS NULL THEN
        DELETE FROM inboxes AS b WHERE b.instance_id = p_instance;
        RETURN v_rows;
    END IF;
    IF v_next > p_now THEN
        UPDATE inboxes AS b SET ready_at = v_next WHERE b.instance_id = p_instance;
        RETURN v_rows;
    END IF;
    SELECT e.pinned, EXISTS (SELECT 1 FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = e.execution_id)
    INTO v_pinned, v_is_known FROM executions AS e WHERE e.instance_id = p_instance ORDER BY e.execution_id DESC LIMIT 1;
    IF v_is_known THEN
        UPDATE inboxes AS b SET lane = json_build_array(NULL, NULL, v_pinned)::text WHERE b.instance_id = p_instance;
        RETURN v_rows;
    END IF;
    SELECT min(q.visible_at) INTO v_next FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.begins IS NOT NULL;
    IF v_next IS NULL THEN
        WITH gone AS (
            DELETE FROM orchestrator_queue AS q
            WHERE q.instance_id = p_instance AND q.id = ANY (ARRAY(
                SELECT o.id FROM orchestrator_queue AS o
                WHERE o.instance_id = p_instance AND o.visible_at <= p_now AND o.created_at <= p_now - p_grace LIMIT p_max))
            RETURNING q.id, q.work_item)
        INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at)
        SELECT 'orchestrator', p_instance, g.work_item, 'the instance is unknown and was not started in time', p_now
        FROM gone AS g ORDER BY g.id;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        SELECT min(greatest(q.visible_at, q.created_at + p_grace)) INTO v_next FROM orchestrator_queue AS q
        WHERE q.instance_id = p_instance;
        IF v_next IS NULL THEN
            DELETE FROM inboxes AS b WHERE b.instance_id = p_instance;
            RETURN v_rows;
        END IF;
    END IF;
    UPDATE inboxes AS b SET ready_at = v_next, cancel_at = NULL WHERE b.instance_id = p_instance;
    RETURN v_rows;
END $$;

-- Whether a message begins an execution that brings unread queue messages along. Those that are still queued stay behind it, or every
-- execution would record and carry more of them. Keys and labels, which the engine carries for itself, are none; nor does a row that
-- does not decode bring any.
CREATE FUNCTION carries(p_kind text, p_item text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT p_kind = 'ContinueAsNew' AND position('"carry_forward_events":[[' IN p_item) > 0
    AND p_item ~ '"carry_forward_events":\[(\["duroxide:(keys|labels)","([^"\\]|\\.)*"\],)*\["(?!duroxide:(keys|labels)")' $$;

-- Claims the oldest messages of an instance that has more than a claim may take, or some that have to stay behind or are held back. The
-- message that begins the next execution and the oldest request to cancel, one that terminates first, come with them in any case.
-- Queue messages that are held back are hidden, so that no claim meets them again, and so are those behind them. Tells how many were.
-- If nothing is left, or so many were hidden that the claim should come again, nothing is leased.
CREATE FUNCTION lease_crowded(p_instance text, p_now bigint, p_lock bigint, p_messages integer, p_bytes bigint, p_letters integer,
    p_carries boolean)
RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_ids bigint[];
    v_by bigint;
    v_hold smallint;
    -- Queue messages with this number or a later one stay.
    v_stay bigint := 9223372036854775807;
    -- How many messages are looked at; all of them, unless some are held back.
    v_looks integer;
    v_hidden bigint := 0;
BEGIN
    SELECT i.letters INTO v_hold FROM instances AS i WHERE i.instance_id = p_instance;
    IF v_hold IS NOT NULL THEN
        v_looks := p_messages + 1000;
        IF v_hold = 1 THEN
            v_stay := 0;
        ELSE
            SELECT coalesce(min(q.id), v_stay) INTO v_stay FROM orchestrator_queue AS q
            WHERE q.instance_id = p_instance AND q.visible_at = 9223372036854775807;
        END IF;
        UPDATE orchestrator_queue AS q SET visible_at = 9223372036854775807
        WHERE q.instance_id = p_instance AND q.visible_at <= p_now AND q.id = ANY (ARRAY(
            SELECT o.id FROM (SELECT o.id, o.kind FROM orchestrator_queue AS o
                              WHERE o.instance_id = p_instance AND o.visible_at <= p_now
                              ORDER BY o.visible_at, o.id LIMIT 1000) AS o
            WHERE o.kind = 'QueueMessage' AND o.id >= v_stay));
        GET DIAGNOSTICS v_hidden = ROW_COUNT;
        IF v_hidden = 1000 THEN
            RETURN v_hidden;
        END IF;
    END IF;
    IF p_carries THEN
        v_stay := 0;
    END IF;
    SELECT array_agg(q.id), max(q.visible_at) INTO v_ids, v_by
    FROM (SELECT q.id, q.visible_at, row_number() OVER w AS place, sum(octet_length(q.work_item)) OVER w AS bytes,
                 count(*) FILTER (WHERE q.kind = 'QueueMessage') OVER w AS letters
          FROM (SELECT q.id, q.visible_at, q.kind, q.work_item FROM orchestrator_queue AS q
                WHERE q.instance_id = p_instance AND q.visible_at <= p_now ORDER BY q.visible_at, q.id LIMIT v_looks) AS q
          WHERE NOT (q.kind = 'QueueMessage' AND q.id >= v_stay)
          WINDOW w AS (ORDER BY q.visible_at, q.id) LIMIT p_messages) AS q
    WHERE q.place = 1 OR (q.bytes <= p_bytes AND q.letters <= p_letters);
    v_ids := coalesce(v_ids, '{}');
    SELECT v_ids || array_agg(s.id), greatest(v_by, max(s.visible_at)) INTO v_ids, v_by
    FROM ((SELECT q.id, q.visible_at FROM orchestrator_queue AS q
           WHERE q.instance_id = p_instance AND q.visible_at <= p_now AND q.begins IS NOT NULL
             AND q.kind IN ('ContinueAsNew', 'StartOrchestration')
           ORDER BY q.kind, q.id LIMIT 1)
          UNION ALL
          (SELECT q.id, q.visible_at FROM orchestrator_queue AS q
           WHERE q.instance_id = p_instance AND q.visible_at <= p_now AND q.kind = 'CancelInstance'
           ORDER BY NOT terminates(q.work_item), q.id LIMIT 1)) AS s
    WHERE s.id <> ALL (v_ids);
    IF v_ids = '{}' THEN
        UPDATE inboxes AS b SET ready_at =
            (SELECT min(q.visible_at) FROM orchestrator_queue AS q WHERE q.instance_id = p_instance)
        WHERE b.instance_id = p_instance;
        RETURN v_hidden;
    END IF;
    UPDATE inboxes AS b SET lock_token = gen_random_uuid(), locked_until = p_now + p_lock, visible_by = v_by,
        message_ids = (SELECT array_agg(i.id ORDER BY i.id) FROM unnest(v_ids) AS i (id) WHERE i.id IS NOT NULL),
        is_cut = EXISTS (SELECT 1 FROM (
            SELECT q.id, q.kind FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.visible_at <= p_now
            ORDER BY q.visible_at, q.id LIMIT v_looks) AS q
            WHERE NOT (q.kind = 'QueueMessage' AND q.id >= v_stay) AND (q.id = ANY (v_ids)) IS NOT TRUE)
    WHERE b.instance_id = p_instance;
    RETURN v_hidden;
END $$;

-- From which time on the search for the first row of each lane counts as a long walk past deleted rows (`group/marks.rs`).
CREATE FUNCTION long_walk() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '1 ms' $$;

-- One row for each claimed turn (`outcome` 0), for each lane that is on no list (1, the lane in `instance_id`), and one with the time
-- of the store in `execution_id`, in how many milliseconds to look again in `last_event_id`, and in `ids` how many messages became dead
-- letters, whether there are arrivals, whether other nodes have something to claim, and whether the walk was long (2). If it was, or
-- with `p_lanes`: one row for each lane that has inboxes (3, the lane in `instance_id`, when the first of them is or was ready in
-- `execution_id`).
--
-- With `p_lanes`, all lanes of the lists in their order, the claim begins in each lane at the time of `p_from`, as `claim_work` does.
--
-- Once it has taken `p_messages_in_all` messages, or `p_bytes_in_all` bytes of them, it takes no further instance, and asks to be made
-- again at once.
CREATE FUNCTION claim_turns(p_expected bigint, p_max integer, p_lock bigint, p_fit text[], p_unfit text[], p_any boolean,
    p_barred text[],
    p_cancel_after bigint, p_messages integer, p_bytes bigint, p_letters integer, p_messages_in_all integer,
    p_bytes_in_all bigint, p_grace bigint, p_lazy boolean, p_lanes text[] DEFAULT NULL, p_from bigint[] DEFAULT NULL)
RETURNS TABLE (outcome integer, instance_id text, token uuid, ids bigint[], items text[], attempts integer[], name text,
    version text, execution_id bigint, incarnation bigint, last_event_id bigint, has_execution boolean)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := now_ms(p_expected);
    v_lanes text[];
    v_from bigint[];
    v_new text[];
    v_found text[];
    v_expired text[];
    v_locked bigint[];
    v_busy text[];
    v_skip text[] := '{}';
    v_rest text[];
    v_crowded text[];
    v_due bigint;
    v_claimed integer := 0;
    v_strays bigint := 0;
    v_dead bigint := 0;
    v_rows bigint;
    v_asked timestamptz;
    v_tells_lanes boolean := p_lanes IS NOT NULL;
    v_walked_long boolean := false;
    -- What the claim took so far, known once some instance was left.
    v_messages bigint;
    v_bytes bigint;
    v_is_full boolean := false;
    one text;
BEGIN
    -- A claim that is lost in a crash of the server never happened: its commit need not wait for the disk.
    IF p_lazy THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    LOOP
        v_asked := clock_timestamp();
        IF p_lanes IS NULL THEN
            -- From lane to lane by index seeks.
            WITH RECURSIVE walk AS (
                (SELECT b.lane, b.ready_at FROM inboxes AS b ORDER BY b.lane, b.ready_at LIMIT 1)
                UNION ALL
                SELECT n.lane, n.ready_at FROM walk AS w CROSS JOIN LATERAL
                    (SELECT b.lane, b.ready_at FROM inboxes AS b WHERE b.lane > w.lane ORDER BY b.lane, b.ready_at LIMIT 1) AS n)
            SELECT array_agg(w.lane), array_agg(w.ready_at),
                   array_agg(w.lane) FILTER (WHERE NOT p_any AND w.lane <> ALL (p_fit) AND w.lane <> ALL (p_unfit))
            INTO v_lanes, v_from, v_new FROM walk AS w;
        ELSE
            SELECT array_agg(l.lane), array_agg(b.ready_at) INTO v_lanes, v_from
            FROM unnest(p_lanes, p_from) AS l (lane, first)
            CROSS JOIN LATERAL (SELECT b.ready_at FROM inboxes AS b WHERE b.lane = l.lane AND b.ready_at >= l.first
                                ORDER BY b.lane, b.ready_at LIMIT 1) AS b;
            -- Between the lanes of the lists: the first one that is on none.
            SELECT array_agg(g.lane) INTO v_new
            FROM (SELECT (SELECT b.lane FROM inboxes AS b WHERE b.lane < p_lanes[1] ORDER BY b.lane LIMIT 1) AS lane
                  UNION ALL
                  SELECT (SELECT b.lane FROM inboxes AS b WHERE b.lane > p_lanes[i] AND b.lane < p_lanes[i + 1]
                          ORDER BY b.lane LIMIT 1) FROM generate_series(1, cardinality(p_lanes) - 1) AS i
                  UNION ALL
                  SELECT (SELECT b.lane FROM inboxes AS b WHERE b.lane > p_lanes[cardinality(p_lanes)]
                          ORDER BY b.lane LIMIT 1)) AS g
            WHERE g.lane IS NOT NULL;
        END IF;
        v_walked_long := v_walked_long OR clock_timestamp() - v_asked > long_walk();

        SELECT array_agg(c.instance_id ORDER BY c.ready_at), array_agg(c.instance_id) FILTER (WHERE c.lock_token IS NOT NULL)
        INTO v_found, v_expired
        FROM (SELECT b.instance_id, b.ready_at, b.lock_token
              FROM unnest(v_lanes, v_from) AS l (lane, first)
              CROSS JOIN LATERAL (
                  SELECT b.instance_id, b.ready_at, b.lock_token FROM inboxes AS b
                  WHERE b.lane = l.lane AND b.ready_at BETWEEN l.first AND v_now AND b.locked_until <= v_now
                    AND b.instance_id <> ALL (v_skip)
                  ORDER BY b.ready_at LIMIT p_max FOR UPDATE SKIP LOCKED) AS b
              WHERE p_any OR l.lane = ANY (p_fit)
              ORDER BY b.ready_at LIMIT p_max) AS c;
        -- Requests to cancel that have waited so long that any node may carry them out.
        IF p_cancel_after IS NOT NULL AND coalesce(cardinality(v_found), 0) < p_max THEN
            SELECT coalesce(v_found, '{}') || coalesce(array_agg(c.instance_id), '{}'),
                   coalesce(v_expired, '{}') || coalesce(array_agg(c.instance_id) FILTER (WHERE c.lock_token IS NOT NULL), '{}')
            INTO v_found, v_expired
            FROM (SELECT b.instance_id, b.lock_token FROM inboxes AS b
                  WHERE b.cancel_at <= v_now - p_cancel_after AND b.ready_at <= v_now AND b.locked_until <= v_now
                    AND b.instance_id <> ALL (v_skip || coalesce(v_found, '{}')) AND b.lane <> ALL (p_barred || v_new)
                  ORDER BY b.cancel_at LIMIT p_max - coalesce(cardinality(v_found), 0) FOR UPDATE SKIP LOCKED) AS c;
        END IF;
        IF cardinality(v_expired) > 0 THEN
            -- Those whose messages another transaction holds are left alone: no claim waits.
            v_locked := ARRAY(SELECT q.id FROM inboxes AS b JOIN orchestrator_queue AS q ON q.instance_id = b.instance_id
                              WHERE b.instance_id = ANY (v_expired) AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)
                              FOR UPDATE OF q SKIP LOCKED);
            IF cardinality(v_locked) < (SELECT count(*) FROM inboxes AS b JOIN orchestrator_queue AS q ON q.instance_id = b.instance_id
                WHERE b.instance_id = ANY (v_expired) AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)) THEN
                SELECT array_agg(DISTINCT b.instance_id) INTO v_busy
                FROM inboxes AS b JOIN orchestrator_queue AS q ON q.instance_id = b.instance_id
                WHERE b.instance_id = ANY (v_expired) AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)
                  AND q.id <> ALL (v_locked);
                v_found := ARRAY(SELECT f.id FROM unnest(v_found) WITH ORDINALITY AS f (id, n) WHERE f.id <> ALL (v_busy) ORDER BY f.n);
                v_expired := ARRAY(SELECT f.id FROM unnest(v_expired) AS f (id) WHERE f.id <> ALL (v_busy));
                v_skip := v_skip || v_busy;
                -- Those behind them have their turn.
                CONTINUE WHEN v_found = '{}';
            END IF;
        END IF;
        -- An attempt that ran out counts.
        IF cardinality(v_expired) > 0 THEN
            UPDATE orchestrator_queue AS q SET attempt_count = q.attempt_count + 1 FROM inboxes AS b
            WHERE b.instance_id = ANY (v_expired) AND q.instance_id = ANY (ARRAY[b.instance_id])
              AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids);
            UPDATE inboxes AS b SET lock_token = NULL, locked_until = 0, message_ids = NULL, visible_by = NULL, is_cut = false
            WHERE b.instance_id = ANY (v_expired);
        END IF;
        EXIT WHEN coalesce(cardinality(v_found), 0) = 0;

        -- The usual case: the instance has a row or a start, not more messages than a claim may take, and none that has to stay behind or
        -- is held back.
        RETURN QUERY
        WITH fits AS MATERIALIZED (
            SELECT f.place, m.messages, m.bytes, f.instance_id, m.ids, m.items, m.attempts, m.visible_by, i.orchestration_name, i.orchestration_version,
                   i.current_execution_id, i.incarnation, i.instance_id IS NOT NULL AS has_row,
                   CASE WHEN i.instance_id IS NULL THEN
                       (SELECT max(e.execution_id) FROM executions AS e WHERE e.instance_id = f.instance_id) END AS last_execution
            FROM unnest(v_found) WITH ORDINALITY AS f (instance_id, place)
            LEFT JOIN instances AS i ON i.instance_id = f.instance_id
            CROSS JOIN LATERAL (
                SELECT array_agg(q.id) AS ids, array_agg(q.work_item) AS items, array_agg(q.attempt_count + 1) AS attempts,
                       max(q.visible_at) AS visible_by, bool_or(q.begins IS NOT NULL) AS begins, count(*) AS messages,
                       sum(octet_length(q.work_item)) AS bytes, bool_or(q.kind = 'QueueMessage') AND bool_or(q.carries) AS is_behind,
                       count(*) FILTER (WHERE q.kind = 'QueueMessage') AS letters
                FROM (SELECT * FROM (
                          SELECT q.id, q.work_item, q.attempt_count, q.visible_at, q.begins, q.kind,
                                 q.kind = 'ContinueAsNew' AND carries(q.kind, q.work_item) AS carries
                          FROM orchestrator_queue AS q WHERE q.instance_id = f.instance_id AND q.visible_at <= v_now
                          LIMIT p_messages + 1) AS q ORDER BY q.id) AS q) AS m
            WHERE m.messages BETWEEN 1 AND p_messages AND (m.messages = 1 OR m.bytes <= p_bytes)
              AND (i.instance_id IS NOT NULL OR m.begins) AND m.is_behind IS NOT TRUE
              AND m.letters <= p_letters AND i.letters IS NULL),
        picked AS (
            SELECT f.* FROM (
                SELECT f.*, sum(f.messages) OVER w AS messages_before, sum(f.bytes) OVER w AS bytes_before FROM fits AS f
                WINDOW w AS (ORDER BY f.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS f
            -- Room for the one that waits longest, if it is none of these.
            WHERE coalesce(f.messages_before, 0) < p_messages_in_all
                    - CASE WHEN (SELECT min(o.place) FROM fits AS o) > 1 THEN p_messages ELSE 0 END
              AND coalesce(f.bytes_before, 0) < p_bytes_in_all
                    - CASE WHEN (SELECT min(o.place) FROM fits AS o) > 1 THEN p_bytes ELSE 0 END),
        leased AS (
            UPDATE inboxes AS b SET lock_token = gen_random_uuid(), locked_until = v_now + p_lock, message_ids = p.ids,
                visible_by = p.visible_by
            FROM picked AS p WHERE b.instance_id = ANY (ARRAY[p.instance_id])
            RETURNING b.instance_id, b.lock_token, p.ids, p.items, p.attempts, p.orchestration_name, p.orchestration_version,
                p.current_execution_id, p.incarnation, p.has_row, p.last_execution)
        SELECT 0, l.instance_id, l.lock_token, l.ids, l.items, l.attempts, l.orchestration_name, l.orchestration_version,
            l.execution_id, l.incarnation,
            (SELECT max(h.event_id) FROM history AS h WHERE h.instance_id = l.instance_id AND h.execution_id = l.execution_id),
            l.has_execution
        FROM (SELECT l.*, coalesce(l.current_execution_id, l.last_execution, 1) AS execution_id,
                     l.has_row OR l.last_execution IS NOT NULL AS has_execution FROM leased AS l) AS l;
        GET DIAGNOSTICS v_claimed = ROW_COUNT;
        EXIT WHEN v_claimed = cardinality(v_found);
        SELECT coalesce(sum(t.messages), 0), coalesce(sum(t.bytes), 0) INTO v_messages, v_bytes
        FROM inboxes AS b
        CROSS JOIN LATERAL (SELECT count(*) AS messages, sum(octet_length(q.work_item)) AS bytes FROM orchestrator_queue AS q
                            WHERE q.instance_id = b.instance_id AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)) AS t
        WHERE b.instance_id = ANY (v_found) AND b.lock_token IS NOT NULL;
        IF (SELECT b.lock_token IS NOT NULL FROM inboxes AS b WHERE b.instance_id = v_found[1]) THEN
            v_is_full := v_messages >= p_messages_in_all OR v_bytes >= p_bytes_in_all;
            EXIT WHEN v_is_full;
        ELSE
            v_is_full := v_messages >= p_messages_in_all - p_messages OR v_bytes >= p_bytes_in_all - p_bytes;
            IF v_is_full THEN
                v_found := v_found[1:1];
            END IF;
        END IF;

        -- The rest has more messages than a claim may take, or a history alone, or nothing that anybody could run.
        SELECT array_agg(b.instance_id) INTO v_rest FROM inboxes AS b
        WHERE b.instance_id = ANY (v_found) AND b.lock_token IS NULL;
        SELECT array_agg(f.instance_id ORDER BY array_position(v_found, f.instance_id)) INTO v_crowded
        FROM unnest(v_rest) AS f (instance_id)
        -- Scalar subqueries: PostgreSQL would hash the whole table for an EXISTS under an OR.
        WHERE (SELECT true FROM orchestrator_queue AS q WHERE q.instance_id = f.instance_id AND q.visible_at <= v_now LIMIT 1)
          AND coalesce((SELECT true FROM instances AS i WHERE i.instance_id = f.instance_id),
              (SELECT true FROM orchestrator_queue AS q
               WHERE q.instance_id = f.instance_id AND q.visible_at <= v_now AND q.begins IS NOT NULL LIMIT 1),
              has_history_only(f.instance_id, (SELECT b.lane FROM inboxes AS b WHERE b.instance_id = f.instance_id)));
        IF v_crowded IS NOT NULL THEN
            FOREACH one IN ARRAY v_crowded LOOP
                v_is_full := v_is_full OR v_messages >= p_messages_in_all OR v_bytes >= p_bytes_in_all;
                EXIT WHEN v_is_full AND one <> v_found[1];
                v_rows := lease_crowded(one, v_now, p_lock, p_messages, p_bytes, p_letters, EXISTS (
                    SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = one AND q.kind = 'ContinueAsNew'
                      AND q.visible_at <= v_now AND carries(q.kind, q.work_item)));
                v_strays := v_strays + v_rows;
                SELECT v_messages + count(*), v_bytes + coalesce(sum(octet_length(q.work_item)), 0) INTO v_messages, v_bytes
                FROM inboxes AS b JOIN orchestrator_queue AS q ON q.instance_id = b.instance_id
                WHERE b.instance_id = one AND b.lock_token IS NOT NULL AND q.visible_at <= b.visible_by
                  AND q.id = ANY (b.message_ids);
            END LOOP;
            RETURN QUERY SELECT 0, b.instance_id, b.lock_token, b.message_ids,
                (SELECT array_agg(q.work_item ORDER BY q.id) FROM orchestrator_queue AS q
                 WHERE q.instance_id = b.instance_id AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)),
                (SELECT array_agg(q.attempt_count + 1 ORDER BY q.id) FROM orchestrator_queue AS q
                 WHERE q.instance_id = b.instance_id AND q.visible_at <= b.visible_by AND q.id = ANY (b.message_ids)),
                i.orchestration_name, i.orchestration_version, coalesce(i.current_execution_id, e.id, 1), i.incarnation,
                (SELECT max(h.event_id) FROM history AS h
                 WHERE h.instance_id = b.instance_id AND h.execution_id = coalesce(i.current_execution_id, e.id, 1)),
                e.id IS NOT NULL
            FROM inboxes AS b
            LEFT JOIN instances AS i ON i.instance_id = b.instance_id
            CROSS JOIN LATERAL (SELECT max(e.execution_id) AS id FROM executions AS e WHERE e.instance_id = b.instance_id) AS e
            WHERE b.instance_id = ANY (v_crowded) AND b.lock_token IS NOT NULL;
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            v_claimed := v_claimed + v_rows;
        END IF;
        FOREACH one IN ARRAY coalesce(v_rest, '{}') LOOP
            IF v_crowded IS NULL OR one <> ALL (v_crowded) THEN
                v_rows := settle_stray(one, v_now, p_grace, 1000);
                v_dead := v_dead + v_rows;
                v_strays := v_strays + 1 + v_rows;
            END IF;
        END LOOP;
        -- What was put right may be in another lane, below the mark there.
        p_lanes := NULL;
        -- Those that were put right are not in the way of the ones behind them. Others wait for this transaction: after so many the
        -- claim comes back for the rest.
        EXIT WHEN v_claimed > 0 OR v_strays >= 1000;
    END LOOP;

    IF v_claimed = 0 THEN
        PERFORM refuse_if_closed();
    END IF;
    IF v_new IS NOT NULL THEN
        RETURN QUERY SELECT 1, l.lane, NULL::uuid, NULL::bigint[], NULL::text[], NULL::integer[], NULL::text, NULL::text,
            NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean
            FROM unnest(v_new) AS l (lane);
    END IF;
    -- When something becomes claimable for this caller unless another transaction writes. What is locked at this moment may be so any moment.
    SELECT min(least(
        (SELECT min(b.ready_at) FROM inboxes AS b WHERE b.lane = l.lane AND b.ready_at > v_now),
        (SELECT min(greatest(b.locked_until, v_now + 5)) FROM inboxes AS b
         WHERE b.lane = l.lane AND b.ready_at BETWEEN l.first AND v_now)))
    INTO v_due FROM unnest(v_lanes, v_from) AS l (lane, first) WHERE p_any OR l.lane = ANY (p_fit);
    IF p_cancel_after IS NOT NULL THEN
        SELECT least(v_due, min(greatest(b.cancel_at + p_cancel_after, b.ready_at, b.locked_until, v_now + 5))) INTO v_due
        FROM inboxes AS b WHERE b.cancel_at IS NOT NULL;
    END IF;
    IF v_strays >= 1000 OR v_is_full THEN
        v_due := v_now;
    END IF;
    IF v_tells_lanes OR v_walked_long THEN
        RETURN QUERY SELECT 3, l.lane, NULL::uuid, NULL::bigint[], NULL::text[], NULL::integer[], NULL::text, NULL::text,
            l.first, NULL::bigint, NULL::bigint, NULL::boolean
            FROM unnest(v_lanes, v_from) AS l (lane, first);
    END IF;
    RETURN QUERY SELECT 2, NULL::text, NULL::uuid,
        ARRAY[v_dead, arrivals_wait(v_now),
              (SELECT count(*) FROM (SELECT 1 FROM unnest(v_lanes, v_from) AS l (lane, first)
                                     CROSS JOIN LATERAL (
                                         SELECT 1 FROM inboxes AS b WHERE b.lane = l.lane AND b.ready_at BETWEEN l.first AND v_now
                                           AND b.locked_until <= v_now LIMIT 1) AS b
                                     WHERE NOT p_any AND l.lane = ANY (p_unfit) LIMIT 1) AS o),
              v_walked_long::integer],
        NULL::text[], NULL::integer[], NULL::text, NULL::text,
        v_now, NULL::bigint, v_due - v_now, NULL::boolean;
END $$;

-- Histories of claimed turns that the caller did not hold after all.
CREATE FUNCTION load_turns(p_instance text[], p_execution bigint[])
RETURNS TABLE (n bigint, events text[], keys text[], vals text[], times bigint[])
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT c.n, (SELECT array_agg(h.event_data ORDER BY h.event_id) FROM history AS h
                 WHERE h.instance_id = c.instance_id AND h.execution_id = c.execution_id), k.keys, k.vals, k.times
    FROM unnest(p_instance, p_execution) WITH ORDINALITY AS c (instance_id, execution_id, n)
    CROSS JOIN LATERAL (
        SELECT array_agg(kv.key) AS keys, array_agg(kv.value) AS vals, array_agg(kv.last_updated_at_ms) AS times
        FROM kv_store AS kv WHERE kv.instance_id = c.instance_id) AS k
$$;
