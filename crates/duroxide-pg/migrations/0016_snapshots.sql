-- One instance as data, and back; and whether the store is closed.

-- Everything of one instance, from one state. Attempts are counted as if every lease had ended; what applications left in transactions of
-- their own comes after what is in the queue, as it will.
CREATE FUNCTION snapshot_instance(p_instance text) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT json_build_object(
        'record', (
            SELECT json_build_object('name', i.orchestration_name, 'version', i.orchestration_version,
                'execution', i.current_execution_id, 'parent', i.parent_instance_id, 'incarnation', i.incarnation,
                'parent_incarnation', i.parent_incarnation, 'custom_status', i.custom_status,
                'custom_status_version', i.custom_status_version, 'created_at', i.created_at, 'updated_at', i.updated_at,
                'paused_at', i.paused_at,
                'labels', (SELECT json_agg(json_build_array(l.key, l.value)) FROM labels AS l WHERE l.instance_id = p_instance))
            FROM instances AS i WHERE i.instance_id = p_instance),
        'executions', (
            SELECT json_agg(json_build_object('id', e.execution_id, 'status', e.status, 'output', e.output,
                'started_at', e.started_at, 'completed_at', e.completed_at, 'pinned', e.pinned) ORDER BY e.execution_id)
            FROM executions AS e WHERE e.instance_id = p_instance),
        'events', (
            SELECT json_agg(json_build_object('execution', h.execution_id, 'id', h.event_id, 'data', h.event_data)
                ORDER BY h.execution_id, h.event_id)
            FROM history AS h WHERE h.instance_id = p_instance),
        'key_values', (
            SELECT json_agg(json_build_object('key', s.key, 'value', s.value, 'at', s.last_updated_at_ms) ORDER BY s.key)
            FROM kv_store AS s WHERE s.instance_id = p_instance),
        'changes', (
            SELECT json_agg(json_build_object('key', d.key, 'value', d.value, 'at', d.last_updated_at_ms) ORDER BY d.key)
            FROM kv_delta AS d WHERE d.instance_id = p_instance),
        'heartbeats', (
            SELECT json_agg(json_build_object('execution', b.execution_id, 'call', b.call_id, 'details', b.details)
                ORDER BY b.execution_id, b.call_id)
            FROM heartbeats AS b WHERE b.instance_id = p_instance),
        'messages', (
            SELECT json_agg(json_build_object('item', m.work_item, 'visible_at', m.visible_at, 'attempts', m.attempts,
                'sent_by', m.sent_by, 'kind', m.kind, 'execution', m.execution_id, 'operation', m.operation_id)
                ORDER BY m.place, m.id)
            FROM (
                SELECT 0 AS place, q.id, q.work_item, q.kind, q.execution_id, q.operation_id, q.sender_incarnation AS sent_by,
                    CASE WHEN q.visible_at = 9223372036854775807 AND q.kind = 'QueueMessage'
                        THEN q.created_at ELSE q.visible_at END AS visible_at, -- held back
                    q.attempt_count + CASE WHEN b.lock_token IS NOT NULL AND q.id = ANY (b.message_ids) THEN 1 ELSE 0 END
                        AS attempts
                FROM orchestrator_queue AS q LEFT JOIN inboxes AS b ON b.instance_id = q.instance_id
                WHERE q.instance_id = p_instance
                UNION ALL SELECT 1, r.id, r.work_item, r.kind, NULL, NULL, NULL,
                    server_ms(transaction_timestamp()) + (SELECT c.ahead_ms FROM clock AS c WHERE c.singleton), 0
                FROM arrivals AS r WHERE r.instance_id = p_instance) AS m),
        'activities', (
            SELECT json_agg(json_build_object('item', w.work_item, 'execution', w.execution_id, 'id', w.activity_id,
                'name', w.name, 'session', w.session_id, 'tag', w.tag, 'visible_at', w.visible_at,
                'attempts', w.attempt_count, 'incarnation', w.incarnation) ORDER BY w.id)
            FROM worker_queue AS w WHERE w.instance_id = p_instance),
        'letters', (
            SELECT json_agg(json_build_object('queue', d.queue, 'payload', d.payload, 'reason', d.reason,
                'set_aside_at', d.set_aside_at, 'incarnation', d.incarnation, 'answered', d.answered) ORDER BY d.id)
            FROM dead_letters AS d WHERE d.instance_id = p_instance OR p_instance = '' AND d.instance_id IS NULL))::text
$$;

-- An instance and its descendants, parents first, from one state: that of the statement that calls this. Those that have not begun come
-- with the instance that sent their start, and may be more than its children.
CREATE FUNCTION snapshot_family(p_root text) RETURNS TABLE (id text, document text) LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    v_ids text[] := ARRAY[p_root];
    v_at integer := 1;
    v_one text;
BEGIN
    WHILE v_at <= cardinality(v_ids) LOOP
        v_one := v_ids[v_at];
        RETURN QUERY SELECT v_one, snapshot_instance(v_one);
        v_ids := v_ids || ARRAY(
            SELECT k.id FROM (
                SELECT c.number, c.instance_id AS id FROM instances AS c JOIN instances AS p ON p.instance_id = v_one
                WHERE c.parent_instance_id = v_one AND coalesce(c.parent_incarnation, p.incarnation) = p.incarnation
                UNION SELECT NULL, q.instance_id FROM orchestrator_queue AS q JOIN instances AS p ON p.instance_id = v_one
                WHERE q.sender_incarnation = p.incarnation
                    AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = q.instance_id)) AS k
            WHERE k.id <> ALL (v_ids) ORDER BY k.number, k.id);
        v_at := v_at + 1;
    END LOOP;
END $$;

-- Writes everything of one instance, if nothing of it is there: 0, else 1 and nothing; 2 and nothing if the store is not closed with this
-- reason (NULL: is not open). The lanes come with it.
CREATE FUNCTION restore_instance(p_expected bigint, p_instance text, p_doc text, p_closed text) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
    v_doc json := p_doc::json;
    v_paused bigint;
BEGIN
    -- No operator can close or open the store meanwhile.
    LOCK TABLE closing IN SHARE MODE;
    IF (SELECT c.reason FROM closing AS c) IS DISTINCT FROM p_closed THEN
        RETURN 2;
    END IF;
    PERFORM set_config('duroxide.restoring', 'on', true);
    -- Locks the inbox, also one that is not there: no sender can reach the instance meanwhile.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 9223372036854775807)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    IF EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM executions AS e WHERE e.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM history AS h WHERE h.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM arrivals AS a WHERE a.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.instance_id = p_instance)
        OR EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.instance_id = p_instance
                   OR p_instance = '' AND d.instance_id IS NULL) THEN
        DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
            AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
        RETURN 1;
    END IF;
    INSERT INTO instances (instance_id, orchestration_name, orchestration_version, current_execution_id, parent_instance_id,
        custom_status, custom_status_version, created_at, updated_at, incarnation, parent_incarnation, lane, memo)
    SELECT p_instance, r.name, r.version, r.execution, r.parent, r.custom_status, r.custom_status_version, r.created_at, r.updated_at,
        r.incarnation, r.parent_incarnation, r.lane, r.memo
    FROM json_to_recordset(v_doc->'record') AS r (name text, version text, execution bigint, parent text, custom_status text,
        custom_status_version bigint, created_at bigint, updated_at bigint, incarnation bigint, parent_incarnation bigint, lane text,
        memo text);
    INSERT INTO labels (instance_id, key, value)
    SELECT p_instance, l.key, l.value FROM json_to_recordset(v_doc->'labels') AS l (key text, value text);
    INSERT INTO executions (instance_id, execution_id, status, output, started_at, completed_at, pinned)
    SELECT p_instance, e.id, e.status, e.output, e.started_at, e.completed_at, e.pinned
    FROM json_to_recordset(v_doc->'executions') AS e (id bigint, status text, output text, started_at bigint, completed_at bigint,
        pinned text);
    INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
    SELECT p_instance, h.execution, h.id, h.type, h.data, v_now
    FROM json_to_recordset(v_doc->'events') AS h (execution bigint, id bigint, type text, data text);
    INSERT INTO kv_store (instance_id, key, value, last_updated_at_ms)
    SELECT p_instance, s.key, s.value, s.at FROM json_to_recordset(v_doc->'key_values') AS s (key text, value text, at bigint);
    INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms)
    SELECT p_instance, d.key, d.value, d.at FROM json_to_recordset(v_doc->'changes') AS d (key text, value text, at bigint);
    INSERT INTO heartbeats (instance_id, execution_id, call_id, details, said_at)
    SELECT p_instance, b.execution, b.call, b.details, v_now
    FROM json_to_recordset(v_doc->'heartbeats') AS b (execution bigint, call bigint, details text);
    INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, attempt_count, created_at, begins, sender_incarnation,
        execution_id, operation_id)
    SELECT p_instance, q.visible_at, q.kind, q.item, q.attempts, v_now, q.begins, q.sent_by, q.execution, q.operation
    FROM json_to_recordset(v_doc->'messages') AS q (n integer, visible_at bigint, kind text, item text, attempts integer, begins text,
        sent_by bigint, execution bigint, operation bigint)
    ORDER BY q.n;
    INSERT INTO worker_queue (instance_id, execution_id, activity_id, name, work_item, session_id, tag, lane, visible_at, attempt_count,
        created_at, incarnation)
    SELECT p_instance, w.execution, w.id, w.name, w.item, w.session, w.tag, w.lane, w.visible_at, w.attempts, v_now, w.incarnation
    FROM json_to_recordset(v_doc->'activities') AS w (n integer, execution bigint, id bigint, name text, item text, session text,
        tag text, lane text, visible_at bigint, attempts integer, incarnation bigint)
    ORDER BY w.n;
    INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, incarnation, answered)
    SELECT d.queue, nullif(p_instance, ''), d.payload, d.reason, d.set_aside_at, d.incarnation, d.answered
    FROM json_to_recordset(v_doc->'letters') AS d (n integer, queue text, payload text, reason text, set_aside_at bigint, incarnation bigint,
        answered boolean)
    ORDER BY d.n;
    -- The inbox says what lies in it, or goes.
    UPDATE inboxes AS b SET cancel_at = v_now WHERE b.instance_id = p_instance AND EXISTS
        (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.kind = 'CancelInstance');
    PERFORM settle_inboxes(ARRAY[p_instance]);
    v_paused := (v_doc->>'paused_at')::bigint;
    IF v_paused IS NOT NULL AND pause_instance(p_expected, p_instance) = 0 THEN
        UPDATE instances AS i SET paused_at = v_paused WHERE i.instance_id = p_instance;
    END IF;
    RETURN 0;
END $$;

-- Ids that anything is held of, by phase: instances in the order of their creation (0), ids that only lie in queues (1), those of which only
-- executions are there (2). All pages together walk each index once, however many there are: each begins after this id (and time), and
-- every part of it stops when it has found enough.
CREATE FUNCTION held_ids(p_phase integer, p_created bigint, p_after text, p_limit integer)
RETURNS TABLE (created_at bigint, instance_id text) LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF p_phase = 0 THEN
        RETURN QUERY SELECT i.created_at, i.instance_id FROM instances AS i
        WHERE (i.created_at, i.instance_id) > (p_created, p_after) ORDER BY i.created_at, i.instance_id LIMIT p_limit;
    ELSIF p_phase = 1 THEN
        RETURN QUERY SELECT 0::bigint, h.id FROM (
            (SELECT DISTINCT q.instance_id AS id FROM orchestrator_queue AS q WHERE q.instance_id > p_after
                AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = q.instance_id) ORDER BY 1 LIMIT p_limit)
            UNION (SELECT DISTINCT w.instance_id FROM worker_queue AS w WHERE w.instance_id > p_after
                AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = w.instance_id) ORDER BY 1 LIMIT p_limit)
            UNION (SELECT DISTINCT a.instance_id FROM arrivals AS a WHERE a.instance_id > p_after
                AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = a.instance_id) ORDER BY 1 LIMIT p_limit)
            UNION (SELECT DISTINCT d.instance_id FROM dead_letters AS d WHERE d.instance_id > p_after
                AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = d.instance_id) ORDER BY 1 LIMIT p_limit)
            ) AS h ORDER BY h.id COLLATE "C" LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT DISTINCT 0::bigint, e.instance_id FROM executions AS e WHERE e.instance_id > p_after
            AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = e.instance_id) ORDER BY 2 LIMIT p_limit;
    END IF;
END $$;

-- Why the store is closed for the engine, its clients and its operators; no row while it is open. Triggers refuse what they write; they are
-- enabled only while it is closed, so that an open store pays nothing.
CREATE TABLE closing (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    reason    text    NOT NULL
);

CREATE FUNCTION refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('duroxide.restoring', true), '') <> 'on' THEN
        RAISE EXCEPTION '%', (SELECT c.reason FROM closing AS c) USING ERRCODE = 'DX001';
    END IF;
    RETURN NULL;
END $$;

-- For a claim that found nothing, and so met no trigger.
CREATE FUNCTION refuse_if_closed() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_reason text := (SELECT c.reason FROM closing AS c);
BEGIN
    IF v_reason IS NOT NULL THEN
        RAISE EXCEPTION '%', v_reason USING ERRCODE = 'DX001';
    END IF;
END $$;

-- Renewals of leases change no instance: `locked_until` may be written.
CREATE TRIGGER closed BEFORE INSERT OR DELETE OR UPDATE OF lane, ready_at, cancel_at, lock_token, message_ids, visible_by, is_cut ON inboxes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER closed BEFORE INSERT OR DELETE OR UPDATE OF lane, visible_at, lock_token, attempt_count ON worker_queue
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed();

-- The tables that a closed store guards, in the order in which they are locked: that of a turn, so that neither waits for the other.
CREATE FUNCTION guarded_tables() RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['arrivals', 'inboxes', 'orchestrator_queue', 'worker_queue', 'history', 'instances', 'executions', 'kv_delta', 'kv_store',
        'labels', 'heartbeats', 'dead_letters', 'duties']
$$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY guarded_tables() LOOP
        IF v_table NOT IN ('inboxes', 'worker_queue') THEN
            EXECUTE format('CREATE TRIGGER closed BEFORE INSERT OR DELETE OR UPDATE ON %I
                FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed()', v_table);
        END IF;
        EXECUTE format('ALTER TABLE %I DISABLE TRIGGER closed', v_table);
    END LOOP;
END $$;

-- Who has written to a table in a transaction that is still open.
CREATE FUNCTION writers_of(p_table text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(DISTINCT format('%s of %s', l.pid, coalesce(nullif(a.application_name, ''), 'an application')), ', '), 'nobody')
    FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.relation = p_table::regclass AND l.granted AND l.pid <> pg_backend_pid() AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
$$;

-- Closes the store, changes why it is closed, or opens it: 0; 1 and nothing if it is not closed with the reason that the caller expects
-- (NULL: is not open). Waits for transactions that are under way for `p_limit` milliseconds in all, because others queue up behind it. Then
-- it fails and names those it waited for. It never succeeds after that time: its caller has given up.
CREATE FUNCTION close_store(p_expected bigint, p_found text, p_reason text, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + make_interval(secs => p_limit / 1000.0);
    v_found text;
    v_table text;
    v_waited text;
BEGIN
    BEGIN
        -- Restores that are under way end first.
        v_table := 'closing';
        PERFORM set_config('lock_timeout', p_limit::text, true);
        LOCK TABLE closing IN EXCLUSIVE MODE;
        SELECT c.reason INTO v_found FROM closing AS c;
        IF v_found IS DISTINCT FROM p_found THEN
            RETURN 1;
        END IF;
        IF (v_found IS NULL) <> (p_reason IS NULL) THEN
            -- Who moves arrivals has this lock first, too.
            v_table := 'arrivals';
            PERFORM pg_advisory_xact_lock(hashtextextended('duroxide arrivals ' || current_schema(), 0));
            FOREACH v_table IN ARRAY guarded_tables() LOOP
                PERFORM set_config('lock_timeout',
                    greatest(1, ceil(extract(epoch FROM v_until - clock_timestamp()) * 1000))::bigint::text, true);
                EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', v_table);
            END LOOP;
            IF p_reason IS NOT NULL THEN
                -- What applications left comes along.
                WHILE receive_arrivals(p_expected, 1000) > 0 AND clock_timestamp() < v_until LOOP
                END LOOP;
            END IF;
            FOREACH v_table IN ARRAY guarded_tables() LOOP
                EXECUTE format('ALTER TABLE %I %s TRIGGER closed', v_table, CASE WHEN p_reason IS NULL THEN 'DISABLE' ELSE 'ENABLE' END);
            END LOOP;
        END IF;
        IF p_reason IS NULL THEN
            DELETE FROM closing;
        ELSE
            INSERT INTO closing (reason) VALUES (p_reason) ON CONFLICT (singleton) DO UPDATE SET reason = excluded.reason;
        END IF;
        IF clock_timestamp() >= v_until THEN
            RAISE lock_not_available;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        v_waited := writers_of(v_table);
        RAISE EXCEPTION 'nothing was closed or opened: transactions stayed open for longer than % ms; % was written to by %', p_limit, v_table,
            v_waited USING ERRCODE = '55P03';
    END;
    RETURN 0;
END $$;
