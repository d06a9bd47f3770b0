-- Rows that PostgreSQL cannot read (`data_corrupted`, `index_corrupted`) cost their own instance only. A statement that meets one
-- fails as a whole; the node then asks these functions whose row it is. They read row by row, each in a subtransaction of its own, and
-- are called by nobody while everything can be read.
--
-- An instance or activity that cannot be read is leased to nobody for a while: claims skip it, nothing of it is changed, and it goes on
-- by itself once an operator has restored or repaired what it needs. A note (0021) says of the instance that it is blocked, and why.

-- Reads what a claim of the instance reads.
CREATE FUNCTION read_turn(p_instance text, p_now bigint) RETURNS void
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    -- A hash needs the whole value, wherever PostgreSQL keeps it.
    PERFORM sum(hashtext(q.work_item)::bigint + hashtext(q.begins)) FROM orchestrator_queue AS q
    WHERE q.instance_id = p_instance AND q.visible_at <= p_now;
    PERFORM i.orchestration_name, i.orchestration_version, i.incarnation, i.letters FROM instances AS i WHERE i.instance_id = p_instance;
    PERFORM max(h.event_id) FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = coalesce(
        (SELECT i.current_execution_id FROM instances AS i WHERE i.instance_id = p_instance),
        (SELECT max(e.execution_id) FROM executions AS e WHERE e.instance_id = p_instance), 1);
END $$;

-- Notes that an instance is blocked by what cannot be read. Whether it is noted: not if the instance has not begun, or if that, too,
-- cannot be read.
CREATE FUNCTION note_unreadable(p_instance text, p_report text, p_node text, p_now bigint) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    INSERT INTO blocked AS b (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
    SELECT i.instance_id, i.incarnation, i.current_execution_id, h.event_id, i.orchestration_name, p_report, 1, p_node, p_now
    FROM instances AS i JOIN history AS h ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
    WHERE i.instance_id = p_instance ORDER BY h.event_id DESC LIMIT 1
    ON CONFLICT (instance_id) DO UPDATE SET incarnation = excluded.incarnation, execution_id = excluded.execution_id,
        last_event_id = excluded.last_event_id, name = excluded.name, report = excluded.report, attempts = excluded.attempts,
        node = excluded.node, noted_at = excluded.noted_at;
    RETURN FOUND;
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RETURN false;
END $$;

-- Leases to nobody, for `p_rest` milliseconds, the instances that a claim of `p_max` would meet and could not read. One row for each.
CREATE FUNCTION rest_unreadable_turns(p_expected bigint, p_max integer, p_rest bigint, p_node text)
RETURNS TABLE (o_instance text, o_reason text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
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
              ORDER BY b.ready_at LIMIT p_max FOR UPDATE SKIP LOCKED) AS b) AS c;
    FOREACH one IN ARRAY coalesce(v_found, '{}') LOOP
        BEGIN
            PERFORM read_turn(one, v_now);
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
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
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
              ORDER BY w.id + 0 LIMIT p_max FOR UPDATE SKIP LOCKED) AS w) AS c;
    FOREACH one IN ARRAY coalesce(v_found, '{}') LOOP
        BEGIN
            PERFORM hashtext(w.work_item) FROM worker_queue AS w WHERE w.id = one;
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            o_reason := SQLERRM;
            UPDATE worker_queue AS w SET lock_token = gen_random_uuid(), locked_until = v_now + p_rest WHERE w.id = one
            RETURNING w.instance_id, w.activity_id INTO o_instance, v_activity;
            PERFORM note_unreadable(o_instance, 'activity ' || v_activity || ' cannot be read: ' || o_reason, p_node, v_now);
            RETURN NEXT;
        END;
    END LOOP;
END $$;

-- Messages of applications stand in one row, and those behind it wait: one that cannot be read becomes a dead letter without a payload.
CREATE FUNCTION set_aside_unreadable_arrivals(p_expected bigint, p_max integer) RETURNS TABLE (o_instance text, o_reason text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    one bigint;
BEGIN
    FOREACH one IN ARRAY ARRAY(SELECT a.id FROM arrivals AS a ORDER BY a.id LIMIT p_max FOR UPDATE SKIP LOCKED) LOOP
        BEGIN
            PERFORM hashtext(a.work_item) FROM arrivals AS a WHERE a.id = one;
        EXCEPTION WHEN data_corrupted OR index_corrupted THEN
            o_reason := SQLERRM;
            DELETE FROM arrivals AS a WHERE a.id = one RETURNING a.instance_id INTO o_instance;
            INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at)
            VALUES ('orchestrator', o_instance, '', 'the row cannot be read: ' || o_reason, v_now);
            RETURN NEXT;
        END;
    END LOOP;
END $$;

-- All instances that can be read, page by page, whatever the indexes say; a text that cannot be read says so in its place.
CREATE FUNCTION readable_instances() RETURNS SETOF instances
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one instances;
BEGIN
    FOR page IN 0 .. pg_relation_size('instances') / current_setting('block_size')::integer - 1 LOOP
        BEGIN
            FOR one IN SELECT * FROM instances AS i
                       WHERE i.ctid >= format('(%s,0)', page)::tid AND i.ctid < format('(%s,0)', page + 1)::tid LOOP
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
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
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
