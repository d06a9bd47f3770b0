-- Activities are claimed, completed, kept and given back.

-- One row for each claimed activity (`outcome` 0), for each lane that is on no list (1, the lane in `item`), and one with the time of
-- the store in `id`, in how many milliseconds to look again in `incarnation` unless as many were claimed as were asked for, in
-- `in_session` whether other nodes have something to claim, and in `attempts` whether the walk to the first rows was long (2). If it
-- was, or with `p_lanes`: one row for each lane that has rows (3, the lane in `item`, the smallest number in `id`).
--
-- With `p_lanes`, all lanes of the lists in their order, the claim begins in each lane at the number of `p_from`. The caller knows that
-- what is below is gone (`group/marks.rs`). Without, it begins at the beginning of each lane, and walks past all that was deleted and
-- could not be vacuumed yet.
CREATE FUNCTION claim_work(p_expected bigint, p_max integer, p_lock bigint, p_plain text[], p_bound text[], p_unfit text[],
    p_owner text, p_session_lock bigint, p_new_sessions bigint, p_lanes text[] DEFAULT NULL, p_from bigint[] DEFAULT NULL)
RETURNS TABLE (outcome integer, id bigint, token uuid, item text, attempts integer, incarnation bigint, in_session boolean)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := now_ms(p_expected);
    v_lanes text[];
    v_from bigint[];
    v_new text[];
    v_ids bigint[];
    v_bound bigint[];
    v_bound_session text[];
    v_granted text[];
    v_free text[];
    v_held text[];
    v_due bigint;
    v_claimed integer := 0;
    v_asked timestamptz := clock_timestamp();
    v_walked_long boolean;
BEGIN
    IF p_lanes IS NULL THEN
        -- From lane to lane by index seeks.
        WITH RECURSIVE walk AS (
            (SELECT w.lane, w.id FROM worker_queue AS w ORDER BY w.lane, w.id + 0 LIMIT 1)
            UNION ALL
            SELECT n.lane, n.id FROM walk AS p CROSS JOIN LATERAL
                (SELECT w.lane, w.id FROM worker_queue AS w WHERE w.lane > p.lane ORDER BY w.lane, w.id + 0 LIMIT 1) AS n)
        SELECT array_agg(w.lane), array_agg(w.id),
               array_agg(w.lane) FILTER (WHERE w.lane <> ALL (p_plain) AND w.lane <> ALL (p_bound) AND w.lane <> ALL (p_unfit))
        INTO v_lanes, v_from, v_new FROM walk AS w;
    ELSE
        SELECT array_agg(l.lane), array_agg(w.id) INTO v_lanes, v_from
        FROM unnest(p_lanes, p_from) AS l (lane, first)
        CROSS JOIN LATERAL (SELECT w.id FROM worker_queue AS w WHERE w.lane = l.lane AND w.id + 0 >= l.first
                            ORDER BY w.lane, w.id + 0 LIMIT 1) AS w;
        -- Between the lanes of the lists: the first one that is on none.
        SELECT array_agg(g.lane) INTO v_new
        FROM (SELECT (SELECT w.lane FROM worker_queue AS w WHERE w.lane < p_lanes[1] ORDER BY w.lane LIMIT 1) AS lane
              UNION ALL
              SELECT (SELECT w.lane FROM worker_queue AS w WHERE w.lane > p_lanes[i] AND w.lane < p_lanes[i + 1]
                      ORDER BY w.lane LIMIT 1) FROM generate_series(1, cardinality(p_lanes) - 1) AS i
              UNION ALL
              SELECT (SELECT w.lane FROM worker_queue AS w WHERE w.lane > p_lanes[cardinality(p_lanes)]
                      ORDER BY w.lane LIMIT 1)) AS g
        WHERE g.lane IS NOT NULL;
    END IF;
    v_walked_long := clock_timestamp() - v_asked > long_walk();
    IF v_new IS NOT NULL THEN
        RETURN QUERY SELECT 1, NULL::bigint, NULL::uuid, l.lane, NULL::integer, NULL::bigint, NULL::boolean
            FROM unnest(v_new) AS l (lane);
    END IF;

    IF v_lanes && p_plain THEN
        SELECT array_agg(c.id ORDER BY c.id) INTO v_ids
        FROM (SELECT w.id FROM unnest(v_lanes, v_from) AS l (lane, first)
              CROSS JOIN LATERAL (
                  SELECT w.id FROM worker_queue AS w
                  WHERE w.lane = l.lane AND w.id + 0 >= l.first AND w.locked_until <= v_now AND w.visible_at <= v_now
                  ORDER BY w.id + 0 LIMIT p_max FOR UPDATE SKIP LOCKED) AS w
              WHERE l.lane = ANY (p_plain)
              ORDER BY w.id LIMIT p_max) AS c;
    END IF;
    IF p_owner IS NOT NULL AND v_lanes && p_bound THEN
        -- A session whose row another transaction holds stays with its activities; the claim does not wait for it, and takes others.
        v_bound_session := ARRAY(
            SELECT DISTINCT w.session_id FROM unnest(v_lanes, v_from) AS l (lane, first)
            CROSS JOIN LATERAL (
                SELECT w.session_id FROM worker_queue AS w
                WHERE w.lane = l.lane AND w.id + 0 >= l.first AND w.locked_until <= v_now AND w.visible_at <= v_now
                ORDER BY w.id + 0 LIMIT greatest(p_max, 1000)) AS w
            WHERE l.lane = ANY (p_bound) AND w.session_id IS NOT NULL);
        v_free := ARRAY(SELECT s.session_id FROM sessions AS s
                        WHERE s.session_id = ANY (v_bound_session) AND (s.locked_until <= v_now OR s.worker_id = p_owner)
                        ORDER BY s.session_id FOR UPDATE SKIP LOCKED);
        v_held := ARRAY(SELECT s.session_id FROM sessions AS s
                        WHERE s.session_id = ANY (v_bound_session) AND s.session_id <> ALL (v_free)
                          AND (s.locked_until <= v_now OR s.worker_id = p_owner));
        -- Of sessions that the owner does not hold yet, only so many, those that waited longest.
        SELECT array_agg(c.id ORDER BY c.id), array_agg(c.session_id ORDER BY c.id) INTO v_bound, v_bound_session
        FROM (SELECT d.id, d.session_id, d.is_held, dense_rank() OVER (PARTITION BY d.is_held ORDER BY d.first_id) AS place
              FROM (SELECT w.id, w.session_id, w.is_held, min(w.id) OVER (PARTITION BY w.session_id) AS first_id
                    FROM unnest(v_lanes, v_from) AS l (lane, first)
                    CROSS JOIN LATERAL (
                        SELECT w.id, w.session_id, s.session_id IS NOT NULL AND s.locked_until > v_now AS is_held
                        FROM worker_queue AS w LEFT JOIN sessions AS s ON s.session_id = w.session_id
                        WHERE w.lane = l.lane AND w.id + 0 >= l.first AND w.locked_until <= v_now AND w.visible_at <= v_now
                          AND (s.session_id IS NULL OR s.locked_until <= v_now OR s.worker_id = p_owner)
                          AND w.session_id <> ALL (v_held)
                        ORDER BY w.id + 0 LIMIT greatest(p_max, 1000) FOR UPDATE OF w SKIP LOCKED) AS w
                    WHERE l.lane = ANY (p_bound)) AS d) AS c
        WHERE c.is_held OR c.place <= p_new_sessions;
        -- The oldest of both kinds.
        SELECT array_agg(c.id) FILTER (WHERE c.session_id IS NULL),
               array_agg(c.id) FILTER (WHERE c.session_id IS NOT NULL),
               array_agg(c.session_id) FILTER (WHERE c.session_id IS NOT NULL)
        INTO v_ids, v_bound, v_bound_session
        FROM (SELECT * FROM (SELECT i.id, NULL::text AS session_id FROM unnest(v_ids) AS i (id)
                             UNION ALL SELECT i.id, i.session_id FROM unnest(v_bound, v_bound_session) AS i (id, session_id)) AS a
              ORDER BY a.id LIMIT p_max) AS c;
        IF v_bound IS NOT NULL THEN
            -- Another node may have taken a session meanwhile.
            WITH granted AS (
                INSERT INTO sessions AS s (session_id, worker_id, locked_until, last_activity_at)
                SELECT DISTINCT b.session_id COLLATE "C", p_owner, v_now + p_session_lock, v_now
                FROM unnest(v_bound_session) AS b (session_id) ORDER BY 1
                ON CONFLICT (session_id) DO UPDATE SET worker_id = excluded.worker_id, locked_until = excluded.locked_until,
                    last_activity_at = excluded.last_activity_at
                WHERE s.locked_until <= v_now OR s.worker_id = excluded.worker_id
                RETURNING s.session_id)
            SELECT array_agg(g.session_id) INTO v_granted FROM granted AS g;
            SELECT coalesce(v_ids, '{}') || coalesce(array_agg(b.id), '{}') INTO v_ids
            FROM unnest(v_bound, v_bound_session) AS b (id, session_id) WHERE b.session_id = ANY (v_granted);
        END IF;
    END IF;

    IF cardinality(v_ids) > 0 THEN
        RETURN QUERY
        WITH leased AS (
            UPDATE worker_queue AS w SET lock_token = gen_random_uuid(), locked_until = v_now + p_lock,
                attempt_count = w.attempt_count + 1
            WHERE w.id = ANY (v_ids)
            RETURNING w.id, w.lock_token, w.work_item, w.attempt_count, w.incarnation, w.session_id IS NOT NULL AS in_session)
        SELECT 0, l.id, l.lock_token, l.work_item, l.attempt_count, l.incarnation, l.in_session FROM leased AS l ORDER BY l.id;
        GET DIAGNOSTICS v_claimed = ROW_COUNT;
    END IF;
    IF v_claimed = 0 THEN
        PERFORM refuse_if_closed();
    END IF;
    IF v_claimed < p_max THEN
        SELECT min(greatest(w.locked_until, w.visible_at, s.locked_until, v_now + 5)) INTO v_due
        FROM unnest(v_lanes, v_from) AS l (lane, first)
        CROSS JOIN LATERAL (SELECT w.locked_until, w.visible_at, w.session_id FROM worker_queue AS w
                            WHERE w.lane = l.lane AND w.id + 0 >= l.first ORDER BY w.id + 0 LIMIT 1000) AS w
        LEFT JOIN sessions AS s ON s.session_id = w.session_id AND s.worker_id <> p_owner AND s.locked_until > v_now
        WHERE l.lane = ANY (p_plain) OR (p_owner IS NOT NULL AND p_new_sessions > 0 AND l.lane = ANY (p_bound));
    END IF;
    IF p_lanes IS NOT NULL OR v_walked_long THEN
        RETURN QUERY SELECT 3, l.first, NULL::uuid, l.lane, NULL::integer, NULL::bigint, NULL::boolean
            FROM unnest(v_lanes, v_from) AS l (lane, first);
    END IF;
    RETURN QUERY SELECT 2, v_now, NULL::uuid, NULL::text, v_walked_long::integer, v_due - v_now,
        (SELECT count(*) FROM (SELECT 1 FROM unnest(v_lanes, v_from) AS l (lane, first)
                               CROSS JOIN LATERAL (
                                   SELECT 1 FROM worker_queue AS w WHERE w.lane = l.lane AND w.id + 0 >= l.first
                                     AND w.visible_at <= v_now AND w.locked_until <= v_now LIMIT 1) AS w
                               WHERE l.lane = ANY (p_unfit) LIMIT 1) AS o) > 0;
END $$;

-- Notes that something happened in these sessions. One whose row another transaction holds is left as it is: that transaction most
-- likely notes the same, and nothing is worth waiting for it.
CREATE FUNCTION touch_sessions(p_sessions text[], p_now bigint) RETURNS void LANGUAGE sql SET enable_seqscan = off AS $$
    UPDATE sessions AS s SET last_activity_at = p_now
    FROM (SELECT t.session_id FROM sessions AS t WHERE t.session_id = ANY (p_sessions) AND t.locked_until > p_now
          ORDER BY t.session_id FOR UPDATE SKIP LOCKED) AS t
    WHERE s.session_id = t.session_id
$$;

-- Completes activities: each goes, and its completion comes, under a valid lease. Tells those that had none. `m_ack` is the place of
-- the activity that the message completes; the inboxes are open already. If one of the first `p_strict` has lost its lease, the whole
-- transaction is taken back (0018).
CREATE FUNCTION ack_work(p_expected bigint, p_id bigint[], p_token uuid[], m_ack integer[], m_instance text[], m_kind text[],
    m_item text[], m_execution bigint[], m_operation bigint[], p_strict integer DEFAULT 0)
RETURNS TABLE (n integer, problem text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := now_ms(p_expected);
    v_enqueued bigint := enqueued_ms(p_expected);
    v_done integer[];
    v_sessions text[];
BEGIN
    WITH gone AS (
        DELETE FROM worker_queue AS w USING (SELECT * FROM unnest(p_id, p_token) WITH ORDINALITY AS a (id, token, n)
                                             ORDER BY a.id) AS a
        WHERE w.id = ANY (ARRAY[a.id]) AND w.lock_token = a.token AND w.locked_until > v_now
        RETURNING a.n, w.session_id)
    SELECT array_agg(g.n::integer), array_agg(g.session_id) FILTER (WHERE g.session_id IS NOT NULL) INTO v_done, v_sessions
    FROM gone AS g;
    IF p_strict > 0 AND (SELECT count(*) FROM unnest(v_done) AS d (n) WHERE d.n <= p_strict) < p_strict THEN
        PERFORM refuse_early('the activity whose result it decided on was lost');
    END IF;
    IF v_sessions IS NOT NULL THEN
        PERFORM touch_sessions(v_sessions, v_now);
    END IF;
    IF cardinality(v_done) = cardinality(p_id) THEN
        INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, execution_id, operation_id)
        SELECT m.instance_id, v_enqueued, m.kind, m.item, v_enqueued, m.execution_id, m.operation_id
        FROM unnest(m_instance, m_kind, m_item, m_execution, m_operation) WITH ORDINALITY
            AS m (instance_id, kind, item, execution_id, operation_id, n)
        ORDER BY m.n;
        RETURN;
    END IF;
    INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, execution_id, operation_id)
    SELECT m.instance_id, v_enqueued, m.kind, m.item, v_enqueued, m.execution_id, m.operation_id
    FROM unnest(m_ack, m_instance, m_kind, m_item, m_execution, m_operation) WITH ORDINALITY
        AS m (ack, instance_id, kind, item, execution_id, operation_id, n)
    WHERE m.ack = ANY (v_done) ORDER BY m.n;
    RETURN QUERY SELECT a.n::integer, CASE WHEN w.lock_token = a.token THEN 'expired' ELSE 'unknown' END
        FROM unnest(p_id, p_token) WITH ORDINALITY AS a (id, token, n) LEFT JOIN worker_queue AS w
            ON w.id = ANY (ARRAY[a.id])
        WHERE v_done IS NULL OR a.n <> ALL (v_done);
END $$;

-- How long a renewal looks again for a row that another transaction holds: that of a commit is free within milliseconds, and one that a
-- shell holds must not keep the others from being renewed.
CREATE FUNCTION renewal_patience() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '60 ms' $$;

-- Each element: no row if it went well, else what is wrong; `held` if another transaction holds its row.
CREATE FUNCTION renew_work(p_expected bigint, p_id bigint[], p_token uuid[], p_for bigint[])
RETURNS TABLE (n integer, problem text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_until timestamptz := clock_timestamp() + renewal_patience();
    v_now bigint;
    v_free bigint[];
    v_kept bigint[];
    v_sessions text[];
BEGIN
    LOOP
        v_free := ARRAY(SELECT w.id FROM worker_queue AS w WHERE w.id = ANY (p_id) ORDER BY w.id FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(v_free) >= (SELECT count(*) FROM worker_queue AS w WHERE w.id = ANY (p_id))
            OR clock_timestamp() > v_until;
        PERFORM pg_sleep(0.005);
    END LOOP;
    v_now := now_ms(p_expected);
    WITH kept AS (
        UPDATE worker_queue AS w SET locked_until = v_now + r.extend
        FROM unnest(p_id, p_token, p_for) WITH ORDINALITY AS r (id, token, extend, n)
        WHERE r.id = ANY (v_free) AND w.id = ANY (ARRAY[r.id]) AND w.lock_token = r.token AND w.locked_until > v_now
        RETURNING r.n, w.session_id)
    SELECT array_agg(k.n), array_agg(k.session_id) FILTER (WHERE k.session_id IS NOT NULL) INTO v_kept, v_sessions
    FROM kept AS k;
    IF v_sessions IS NOT NULL THEN
        PERFORM touch_sessions(v_sessions, v_now);
    END IF;
    IF cardinality(v_kept) = cardinality(p_id) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT r.n::integer, CASE WHEN w.lock_token IS DISTINCT FROM r.token THEN 'unknown'
                                           WHEN w.locked_until > v_now AND r.id <> ALL (v_free) THEN 'held' ELSE 'expired' END
        FROM unnest(p_id, p_token) WITH ORDINALITY AS r (id, token, n) LEFT JOIN worker_queue AS w
            ON w.id = ANY (ARRAY[r.id])
        WHERE v_kept IS NULL OR r.n <> ALL (v_kept);
END $$;

-- `false`: the token is not the last one that was granted.
CREATE FUNCTION abandon_work(p_expected bigint, p_id bigint, p_token uuid, p_delay bigint, p_ignore boolean) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
    UPDATE worker_queue AS w SET lock_token = NULL, locked_until = 0,
        visible_at = coalesce(enqueued_ms(p_expected) + p_delay, w.visible_at),
        attempt_count = greatest(0, w.attempt_count - CASE WHEN p_ignore THEN 1 ELSE 0 END)
    WHERE w.id = p_id AND w.lock_token = p_token;
    RETURN FOUND;
END $$;

-- Moves an activity to the dead letters and enqueues its failure, whose inbox is open. Tells what is wrong, or nothing.
CREATE FUNCTION set_aside_work(p_expected bigint, p_id bigint, p_token uuid, p_reason text, p_strict boolean, p_failure text)
RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_enqueued bigint := enqueued_ms(p_expected);
    v_work worker_queue;
BEGIN
    DELETE FROM worker_queue AS w WHERE w.id = p_id AND w.lock_token = p_token AND (NOT p_strict OR w.locked_until > v_now)
    RETURNING * INTO v_work;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.id = p_id AND w.lock_token = p_token)
            THEN 'expired' ELSE 'unknown' END;
    END IF;
    INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, incarnation, answered)
    VALUES ('worker', v_work.instance_id, v_work.work_item, p_reason, v_now, v_work.incarnation, true);
    INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, execution_id, operation_id)
    VALUES (v_work.instance_id, v_enqueued, 'ActivityFailed', p_failure, v_enqueued, v_work.execution_id, v_work.activity_id);
    RETURN NULL;
END $$;

-- How many were renewed; -1 if another transaction holds the row of one: the others are renewed, and it is asked again.
CREATE FUNCTION renew_sessions(p_expected bigint, p_owners text[], p_for bigint, p_idle bigint) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + renewal_patience();
    v_now bigint := now_ms(p_expected);
    v_free text[];
    v_is_all boolean;
    v_rows bigint;
BEGIN
    LOOP
        v_free := ARRAY(SELECT t.session_id FROM sessions AS t WHERE t.worker_id = ANY (p_owners) AND t.locked_until > v_now
                        AND t.last_activity_at > v_now - p_idle ORDER BY t.session_id FOR UPDATE SKIP LOCKED);
        v_is_all := cardinality(v_free) >= (
            SELECT count(*) FROM sessions AS t WHERE t.worker_id = ANY (p_owners) AND t.locked_until > v_now
            AND t.last_activity_at > v_now - p_idle);
        EXIT WHEN v_is_all OR clock_timestamp() > v_until;
        PERFORM pg_sleep(0.005);
    END LOOP;
    UPDATE sessions AS s SET locked_until = v_now + p_for WHERE s.session_id = ANY (v_free);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN CASE WHEN v_is_all THEN v_rows ELSE -1 END;
END $$;

CREATE FUNCTION cleanup_sessions(p_expected bigint) RETURNS bigint LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_rows bigint;
BEGIN
    DELETE FROM sessions AS s WHERE s.locked_until < v_now
        AND NOT EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.session_id = s.session_id);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END $$;
