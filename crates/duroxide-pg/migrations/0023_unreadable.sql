-- Rows that PostgreSQL cannot read (`data_corrupted`, `index_corrupted`) cost their own instance only. A statement that meets one
-- fails as a whole; the node then asks these functions whose row it is. They read row by row, each in a subtransaction of its own, and
-- are called by nobody while everything can be read.
--
-- An instance or activity that cannot be read is leased to nobody for a while: claims skip it, nothing of it is changed, and it goes on
-- by itself once an operator has restored or repaired what it needs. A note (0021) says of the instance that it is blocked, and why.

-- Reads what a claim of the instance reads, and what a commit of its turn needs.
CREATE FUNCTION read_turn(p_instance text) RETURNS void
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    -- A hash needs the whole value, wherever PostgreSQL keeps it.
    PERFORM sum(hashtext(q.work_item)::bigint + hashtext(q.begins)) FROM orchestrator_queue AS q WHERE q.instance_id = p_instance;
    PERFORM hashtext(i.orchestration_name), hashtext(i.orchestration_version), hashtext(i.lane), i.incarnation, i.letters
    FROM instances AS i WHERE i.instance_id = p_instance;
    PERFORM max(e.execution_id), count(hashtext(e.status)), count(hashtext(e.pinned)) FROM executions AS e
    WHERE e.instance_id = p_instance;
    PERFORM max(h.event_id) FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = coalesce(
        (SELECT i.current_execution_id FROM instances AS i WHERE i.instance_id = p_instance),
        (SELECT max(e.execution_id) FROM executions AS e WHERE e.instance_id = p_instance), 1);
END $$;

-- Notes that an instance is blocked by what cannot be read. Whether it is noted: not if the instance has not begun, or if its last event
-- cannot be found.
CREATE FUNCTION note_unreadable(p_instance text, p_report text, p_node text, p_now bigint) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_name text;
BEGIN
    BEGIN
        SELECT i.orchestration_name || '' INTO v_name FROM instances AS i WHERE i.instance_id = p_instance;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        v_name := 'unknown';
    END;
    INSERT INTO blocked AS b (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
    SELECT i.instance_id, i.incarnation, i.current_execution_id, h.event_id, v_name, p_report, 1, p_node, p_now
    FROM instances AS i JOIN history AS h ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
    WHERE i.instance_id = p_instance ORDER BY h.event_id DESC LIMIT 1
    ON CONFLICT (instance_id) DO UPDATE SET incarnation = excluded.incarnation, execution_id = excluded.execution_id,
        last_event_id = excluded.last_event_id, name = excluded.name, report = excluded.report, attempts = excluded.attempts,
        node = excluded.node, noted_at = excluded.noted_at;
    RETURN FOUND;
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RETURN false;
END $$;

-- Leases to nobody, for `p_rest` milliseconds, an instance whose turn was claimed with this token and whose history cannot be read.
-- `false`: the lease was lost.
CREATE FUNCTION rest_unreadable_history(p_expected bigint, p_instance text, p_token uuid, p_rest bigint, p_why text, p_node text)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
BEGIN
    -- No messages come with this lease: when it ends, no attempt is counted.
    UPDATE inboxes AS b SET lock_token = gen_random_uuid(), locked_until = v_now + p_rest, message_ids = NULL, visible_by = NULL,
        is_cut = false
    WHERE b.instance_id = p_instance AND b.lock_token = p_token AND b.locked_until > v_now;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_unreadable(p_instance, 'its history cannot be read: ' || p_why, p_node, v_now);
    RETURN true;
END $$;

-- Leases to nobody, for `p_rest` milliseconds, the instances that a claim of `p_max` would meet and could not read. One row for each.
-- A claim that puts strays right looks behind them, and one that has room takes old requests to cancel.
CREATE FUNCTION rest_unreadable_turns(p_expected bigint, p_max integer, p_rest bigint, p_node text)
RETURNS TABLE (o_instance text, o_reason text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_found text[];
    one text;
BEGIN
    WITH RECURSIVE walk AS (
        (SELECT b.lane FROM inboxes AS b ORDER BY b.lane LIMIT 1)
        UNION ALL
        SELECT n.lane FROM walk AS w CROSS JOIN LATERAL
            (SELECT b.lane FROM inboxes AS b WHERE b.lane > w.lane ORDER BY b.lane LIMIT 1) AS n)
    SELECT array_agg(c.instance_id) INTO v_found
    FROM (SELECT b.instance_id FROM walk AS w CROSS JOIN LATERAL (
              SELECT b.instance_id FROM inboxes AS b
              WHERE b.lane = w.lane AND b.ready_at <= v_now AND b.locked_until <= v_now
              ORDER BY b.ready_at LIMIT greatest(p_max, 1000) FOR UPDATE SKIP LOCKED) AS b) AS c;
    v_found := coalesce(v_found, '{}');
    v_found := v_found || ARRAY(
        SELECT b.instance_id FROM inboxes AS b
        WHERE b.cancel_at <= v_now AND b.ready_at <= v_now AND b.locked_until <= v_now AND b.instance_id <> ALL (v_found)
        ORDER BY b.cancel_at LIMIT greatest(p_max, 1000) FOR UPDATE SKIP LOCKED);
    FOREACH one IN ARRAY v_found LOOP
        BEGIN
            PERFORM read_turn(one);
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            o_instance := one;
            o_reason := SQLERRM;
            -- No messages come with this lease: when it ends, no attempt is counted.
            UPDATE inboxes AS b SET lock_token = gen_random_uuid(), locked_until = v_now + p_rest, message_ids = NULL,
                visible_by = NULL, is_cut = false
            WHERE b.instance_id = one;
            PERFORM note_unreadable(one, 'its rows cannot be read: ' || o_reason, p_node, v_now);
            RETURN NEXT;
        END;
    END LOOP;
END $$;

-- The same for activities.
CREATE FUNCTION rest_unreadable_work(p_expected bigint, p_max integer, p_rest bigint, p_node text)
RETURNS TABLE (o_instance text, o_reason text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_found bigint[];
    v_activity bigint;
    one bigint;
BEGIN
    WITH RECURSIVE walk AS (
        (SELECT w.lane FROM worker_queue AS w ORDER BY w.lane LIMIT 1)
        UNION ALL
        SELECT n.lane FROM walk AS p CROSS JOIN LATERAL
            (SELECT w.lane FROM worker_queue AS w WHERE w.lane > p.lane ORDER BY w.lane LIMIT 1) AS n)
    SELECT array_agg(c.id) INTO v_found
    FROM (SELECT w.id FROM walk AS l CROSS JOIN LATERAL (
              SELECT w.id FROM worker_queue AS w
              WHERE w.lane = l.lane AND w.visible_at <= v_now AND w.locked_until <= v_now
              ORDER BY w.id + 0 LIMIT greatest(p_max, 1000) FOR UPDATE SKIP LOCKED) AS w) AS c;
    FOREACH one IN ARRAY coalesce(v_found, '{}') LOOP
        BEGIN
            PERFORM hashtext(w.work_item), s.locked_until, hashtext(s.worker_id)
            FROM worker_queue AS w LEFT JOIN sessions AS s ON s.session_id = w.session_id WHERE w.id = one;
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            o_reason := SQLERRM;
            UPDATE worker_queue AS w SET lock_token = gen_random_uuid(), locked_until = v_now + p_rest WHERE w.id = one
            RETURNING w.instance_id, w.activity_id INTO o_instance, v_activity;
            PERFORM note_unreadable(o_instance, 'activity ' || v_activity || ' cannot be read: ' || o_reason, p_node, v_now);
            RETURN NEXT;
        END;
    END LOOP;
END $$;

-- Reads what the move of an arrival to the queue reads, of the message and of the instance that it is for.
CREATE FUNCTION read_arrival(p_id bigint) RETURNS void
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM hashtext(a.kind), hashtext(a.work_item), hashtext(a.begins), hashtext(b.lane), hashtext(i.lane)
    FROM arrivals AS a LEFT JOIN inboxes AS b ON b.instance_id = a.instance_id
    LEFT JOIN instances AS i ON i.instance_id = a.instance_id WHERE a.id = p_id;
    PERFORM count(hashtext(q.begins)), min(q.visible_at)
    FROM arrivals AS a JOIN orchestrator_queue AS q ON q.instance_id = a.instance_id WHERE a.id = p_id;
END $$;

-- Messages of applications stand in one row. One that cannot be moved, because it or its instance cannot be read, rests for `p_rest`
-- milliseconds, and with it those behind it to the same instance, so that they keep their order (0010); the others go on.
CREATE FUNCTION rest_unreadable_arrivals(p_expected bigint, p_max integer, p_rest bigint, p_node text)
RETURNS TABLE (o_instance text, o_reason text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    one bigint;
BEGIN
    FOREACH one IN ARRAY ARRAY(SELECT a.id FROM arrivals AS a
                               WHERE a.rests_until <= v_now AND NOT EXISTS (
                                   SELECT 1 FROM arrivals AS r
                                   WHERE r.rests_until > 0 AND r.rests_until > v_now AND r.instance_id = a.instance_id)
                               ORDER BY a.id LIMIT greatest(p_max, 1000) FOR UPDATE OF a SKIP LOCKED) LOOP
        BEGIN
            PERFORM read_arrival(one);
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            o_reason := SQLERRM;
            UPDATE arrivals AS a SET rests_until = v_now + p_rest WHERE a.id = one RETURNING a.instance_id INTO o_instance;
            PERFORM note_unreadable(o_instance, 'a message of an application cannot be moved to its queue: ' || o_reason, p_node,
                v_now);
            RETURN NEXT;
        END;
    END LOOP;
END $$;

-- How many events an execution has; 0 if they cannot be counted. Listings ask it where others could not be answered.
CREATE FUNCTION events_of(p_instance text, p_execution bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN (SELECT count(*) FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = p_execution);
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RAISE WARNING 'the events of % cannot be counted: %', p_instance, SQLERRM;
    RETURN 0;
END $$;

-- All instances that can be read, page by page, whatever the indexes say; a text that cannot be read says so in its place.
CREATE FUNCTION readable_instances() RETURNS SETOF instances
LANGUAGE plpgsql STABLE SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one instances;
BEGIN
    FOR page IN 0 .. pg_relation_size('instances') / current_setting('block_size')::integer - 1 LOOP
        BEGIN
            FOR one IN SELECT * FROM instances AS i
                       WHERE i.ctid >= format('(%s,0)', page)::tid AND i.ctid < format('(%s,0)', page + 1)::tid LOOP
                BEGIN
                    PERFORM hashtext(one.orchestration_name), hashtext(one.orchestration_version);
                EXCEPTION WHEN data_corrupted OR index_corrupted THEN
                    one.orchestration_name := 'cannot be read: ' || SQLERRM;
                    one.orchestration_version := NULL;
                END;
                BEGIN
                    PERFORM hashtext(one.custom_status);
                EXCEPTION WHEN data_corrupted OR index_corrupted THEN
                    one.custom_status := 'cannot be read: ' || SQLERRM;
                END;
                BEGIN
                    PERFORM hashtext(one.memo);
                EXCEPTION WHEN data_corrupted OR index_corrupted THEN
                    one.memo := NULL;
                END;
                RETURN NEXT one;
            END LOOP;
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            RAISE WARNING 'page % of the instances cannot be read: %', page, SQLERRM;
        END;
    END LOOP;
END $$;

-- The same of executions.
CREATE FUNCTION readable_executions() RETURNS SETOF executions
LANGUAGE plpgsql STABLE SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one executions;
BEGIN
    FOR page IN 0 .. pg_relation_size('executions') / current_setting('block_size')::integer - 1 LOOP
        BEGIN
            FOR one IN SELECT * FROM executions AS e
                       WHERE e.ctid >= format('(%s,0)', page)::tid AND e.ctid < format('(%s,0)', page + 1)::tid LOOP
                BEGIN
                    PERFORM hashtext(one.output);
                EXCEPTION WHEN data_corrupted OR index_corrupted THEN
                    one.output := 'cannot be read: ' || SQLERRM;
                END;
                RETURN NEXT one;
            END LOOP;
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            RAISE WARNING 'page % of the executions cannot be read: %', page, SQLERRM;
        END;
    END LOOP;
END $$;
