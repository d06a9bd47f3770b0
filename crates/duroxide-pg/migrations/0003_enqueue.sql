-- Messages and activities come in.
--
-- Lock order of everything in this schema, which is why nothing here waits in a circle: inboxes by instance id, then rows of
-- instances, then rows of the worker queue by number, then sessions by name. Claims never wait: they skip what is locked.

-- When the first of the messages that one transaction sends to an instance becomes visible.
CREATE FUNCTION first_due(p_to text, p_now bigint, p_instance text[], p_due bigint[], p_delay bigint[]) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT min(coalesce(due_ms(n.due), p_now + n.delay)) FROM unnest(p_instance, p_due, p_delay) AS n (instance_id, due, delay)
    WHERE n.instance_id = p_to
$$;

-- The first step of every transaction that writes: locks the inboxes of turns that are committed, renewed or given back, and opens
-- those of instances that are sent something. All that exist are locked first, in one pass; no transaction
-- that holds one of those waits for inboxes that are made after that. An inbox that is made for a turn that was handed out early
-- (`p_token`, 0018) is leased from the beginning; one that has nothing for anybody yet, but a timer that is not due, is leased, too.
CREATE FUNCTION open_inboxes(p_expected bigint, p_held text[], p_instance text[], p_due bigint[], p_delay bigint[],
    p_begins text[], p_cancels boolean[], p_token uuid[] DEFAULT NULL, p_lock bigint[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint;
    v_leased bigint;
BEGIN
    PERFORM 1 FROM inboxes WHERE instance_id = ANY (p_held || p_instance) ORDER BY instance_id FOR UPDATE;
    IF cardinality(p_instance) = 0 THEN
        RETURN;
    END IF;
    v_now := enqueued_ms(p_expected);
    IF p_token IS NOT NULL THEN
        v_leased := now_ms(p_expected);
    END IF;
    INSERT INTO inboxes AS b (instance_id, lane, ready_at, cancel_at, lock_token, locked_until)
    SELECT m.instance_id, coalesce(nullif(i.lane, 'between'), m.begins, i.lane, ''), m.ready_at, m.cancel_at, m.token,
        CASE WHEN m.token IS NULL THEN 0 ELSE v_leased + m.lock_ms END
    FROM (SELECT n.instance_id, min(coalesce(due_ms(n.due), v_now + n.delay)) AS ready_at, min(n.begins) AS begins,
                 min(CASE WHEN n.cancels THEN v_now END) AS cancel_at,
                 (array_agg(n.token) FILTER (WHERE n.token IS NOT NULL))[1] AS token, max(n.lock_ms) AS lock_ms
          FROM unnest(p_instance, p_due, p_delay, p_begins, p_cancels, p_token, p_lock)
              AS n (instance_id, due, delay, begins, cancels, token, lock_ms)
          GROUP BY n.instance_id) AS m
    LEFT JOIN instances AS i ON i.instance_id = m.instance_id
    ORDER BY m.instance_id COLLATE "C"
    ON CONFLICT (instance_id) DO UPDATE SET
        -- What is sent to a paused instance is ready at no time (0011); the pause may have ended while the insert waited.
        ready_at = least(b.ready_at, CASE WHEN excluded.lane = 'paused'
            THEN first_due(b.instance_id, v_now, p_instance, p_due, p_delay) ELSE excluded.ready_at END),
        cancel_at = least(b.cancel_at, excluded.cancel_at),
        lock_token = CASE WHEN b.lock_token IS NULL AND b.ready_at > v_now THEN excluded.lock_token ELSE b.lock_token END,
        locked_until = CASE WHEN b.lock_token IS NULL AND b.ready_at > v_now THEN excluded.locked_until ELSE b.locked_until END,
        lane = CASE WHEN b.lane IN ('', 'between') THEN excluded.lane ELSE b.lane END;
    -- A turn may have been committed, or the instance resumed or deleted, while the insert waited for its inbox. From here on the inbox
    -- is ours, and so is the lane. That is rare, and looking for it is cheaper than putting it right.
    IF NOT EXISTS (
        SELECT 1 FROM unnest(p_instance, p_begins) AS n (instance_id, begins)
        JOIN inboxes AS b ON b.instance_id = ANY (ARRAY[n.instance_id])
        LEFT JOIN instances AS i ON i.instance_id = n.instance_id
        WHERE CASE WHEN i.instance_id IS NULL THEN b.lane <> coalesce(n.begins, '')
                   ELSE b.lane <> i.lane AND (i.lane <> 'between' OR b.lane = 'paused') END) THEN
        RETURN;
    END IF;
    UPDATE inboxes AS b SET
        lane = CASE WHEN i.lane <> 'between' THEN i.lane ELSE coalesce(
            (SELECT q.begins FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id AND q.begins IS NOT NULL
             ORDER BY q.kind, q.visible_at, q.id LIMIT 1), i.lane) END,
        ready_at = CASE WHEN b.lane = 'paused' THEN least(first_due(b.instance_id, v_now, p_instance, p_due, p_delay),
            (SELECT min(q.visible_at) FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id)) ELSE b.ready_at END
    FROM instances AS i
    WHERE b.instance_id = ANY (p_instance) AND i.instance_id = b.instance_id AND b.lane <> i.lane
      AND (i.lane <> 'between' OR b.lane = 'paused');
    UPDATE inboxes AS b SET lane = coalesce(m.begins, ''),
        ready_at = CASE WHEN b.lane = 'paused' THEN first_due(b.instance_id, v_now, p_instance, p_due, p_delay) ELSE b.ready_at END
    FROM (SELECT n.instance_id, min(n.begins) AS begins FROM unnest(p_instance, p_begins) AS n (instance_id, begins)
          GROUP BY n.instance_id) AS m
    WHERE b.instance_id = ANY (ARRAY[m.instance_id]) AND b.lane <> coalesce(m.begins, '')
      AND (SELECT true FROM instances AS i WHERE i.instance_id = b.instance_id) IS NULL
      AND (SELECT true FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id LIMIT 1) IS NULL;
END $$;

-- Whether a request to cancel ends its instance at once, without its code.
CREATE FUNCTION terminates(p_item text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_item LIKE '%"reason":"duroxide:terminate:%' OR p_item LIKE '%"reason":"duroxide:parent:%duroxide:terminate:%'
$$;

-- Messages whose inboxes are open. Returns the places of those that begin an instance that does not exist yet.
CREATE FUNCTION enqueue_messages(p_expected bigint, p_instance text[], p_kind text[], p_item text[], p_due bigint[],
    p_delay bigint[], p_begins text[], p_execution bigint[], p_operation bigint[], p_sender bigint[])
RETURNS TABLE (place integer)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
BEGIN
    INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, begins, execution_id, operation_id,
        sender_incarnation)
    SELECT m.instance_id, coalesce(due_ms(m.due), v_now + m.delay), m.kind, m.item, v_now, m.begins, m.execution_id, m.operation_id,
        m.sender
    FROM unnest(p_instance, p_kind, p_item, p_due, p_delay, p_begins, p_execution, p_operation, p_sender) WITH ORDINALITY
        AS m (instance_id, kind, item, due, delay, begins, execution_id, operation_id, sender, n)
    ORDER BY m.n;
    -- The next execution decides which code an instance needs between two of them, whatever older starts ask for.
    IF 'ContinueAsNew' = ANY (p_kind) THEN
        UPDATE inboxes AS b SET lane = m.begins
        FROM unnest(p_instance, p_kind, p_begins) AS m (instance_id, kind, begins)
        JOIN instances AS i ON i.instance_id = m.instance_id AND i.lane = 'between'
        WHERE m.kind = 'ContinueAsNew' AND b.instance_id = ANY (ARRAY[m.instance_id])
          AND b.lane <> m.begins;
    END IF;
    -- No code is asked before an instance is terminated, so no node with the code is waited for.
    IF 'CancelInstance' = ANY (p_kind) THEN
        -- A turn that was committed before in this transaction has taken the time of the request away.
        UPDATE inboxes AS b SET cancel_at = CASE WHEN m.terminates THEN 0 ELSE least(b.cancel_at, v_now) END
        FROM (SELECT m.instance_id, bool_or(terminates(m.item)) AS terminates
              FROM unnest(p_instance, p_kind, p_item) AS m (instance_id, kind, item)
              WHERE m.kind = 'CancelInstance' GROUP BY m.instance_id) AS m
        WHERE b.instance_id = ANY (ARRAY[m.instance_id]) AND (m.terminates OR b.cancel_at IS NULL);
    END IF;
    RETURN QUERY SELECT m.n::integer FROM unnest(p_instance, p_kind) WITH ORDINALITY AS m (instance_id, kind, n)
        WHERE m.kind = 'StartOrchestration'
          AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = m.instance_id);
END $$;

-- Activities. One with a token is leased from the beginning, for `p_lock` milliseconds, to a worker that waits; that of a paused instance
-- (0011) waits in a lane that no claim looks into. Returns the numbers of those that are leased.
CREATE FUNCTION enqueue_work(p_expected bigint, p_instance text[], p_execution bigint[], p_activity bigint[], p_name text[],
    p_item text[], p_session text[], p_tag text[], p_lane text[], p_token uuid[] DEFAULT NULL, p_lock bigint[] DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
    v_leased bigint := now_ms(p_expected);
    v_ids bigint[];
BEGIN
    WITH written AS (
        INSERT INTO worker_queue (instance_id, execution_id, activity_id, name, work_item, session_id, tag, lane, visible_at,
            created_at, incarnation, lock_token, locked_until, attempt_count)
        SELECT w.instance_id, w.execution_id, w.activity_id, w.name, w.item, w.session_id, w.tag,
            CASE WHEN i.paused_at IS NULL THEN w.lane ELSE 'paused ' || w.lane END, v_now, v_now, i.incarnation,
            CASE WHEN i.paused_at IS NULL THEN w.token END,
            CASE WHEN w.token IS NOT NULL AND i.paused_at IS NULL THEN v_leased + w.lock_ms ELSE 0 END,
            CASE WHEN w.token IS NOT NULL AND i.paused_at IS NULL THEN 1 ELSE 0 END
        FROM unnest(p_instance, p_execution, p_activity, p_name, p_item, p_session, p_tag, p_lane, p_token, p_lock) WITH ORDINALITY
            AS w (instance_id, execution_id, activity_id, name, item, session_id, tag, lane, token, lock_ms, n)
        LEFT JOIN instances AS i ON i.instance_id = w.instance_id
        ORDER BY w.n
        RETURNING id, lock_token)
    SELECT array_agg(w.id) FILTER (WHERE w.lock_token IS NOT NULL) INTO v_ids FROM written AS w;
    RETURN v_ids;
END $$;

-- Events without a lease; messages that waited for the instance to become known can be claimed then.
CREATE FUNCTION append_events(p_expected bigint, p_instance text, p_execution bigint, p_id bigint[], p_type text[],
    p_data text[]) RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_now bigint;
BEGIN
    PERFORM 1 FROM inboxes WHERE instance_id = p_instance FOR UPDATE;
    v_now := enqueued_ms(p_expected);
    INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
    SELECT p_instance, p_execution, e.id, e.type, e.data, v_now FROM unnest(p_id, p_type, p_data) AS e (id, type, data);
    UPDATE inboxes SET ready_at = least(ready_at, coalesce(
        (SELECT min(q.visible_at) FROM orchestrator_queue AS q WHERE q.instance_id = p_instance), ready_at))
    WHERE instance_id = p_instance;
END $$;
