-- What operators delete. All checks happen inside the transaction that deletes, and the lease goes with the instance, so that a turn
-- that is under way cannot bring it back.

-- An instance and all its descendants, parents first; children of an earlier life of an id are not among them.
CREATE FUNCTION instance_tree(p_root text) RETURNS SETOF text LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_all text[] := ARRAY[p_root];
    v_level text[] := ARRAY[p_root];
BEGIN
    -- A parent link that leads in a circle cannot be written by the engine, but a person with a shell can.
    WHILE v_level IS NOT NULL LOOP
        SELECT array_agg(c.instance_id ORDER BY c.number) INTO v_level
        FROM instances AS c LEFT JOIN instances AS p ON p.instance_id = c.parent_instance_id
        WHERE c.parent_instance_id = ANY (v_level) AND c.instance_id <> ALL (v_all)
          AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation);
        v_all := v_all || v_level;
    END LOOP;
    RETURN QUERY SELECT unnest(v_all);
END $$;

-- Deletes these instances together or not at all. `problem`: NULL, 'running' or 'child', with whom it is about.
CREATE FUNCTION delete_instances(p_ids text[], p_force boolean)
RETURNS TABLE (problem text, subject text, other text, instances_gone bigint, executions_gone bigint, events_gone bigint,
    messages_gone bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_lives bigint[];
    v_unborn text[];
    v_rows bigint;
BEGIN
    -- Also the inboxes that are not there are ours from here on: a message that comes now waits for the end of the deletion, and
    -- belongs to the next life.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at)
    SELECT DISTINCT d.id COLLATE "C", '', 0 FROM unnest(p_ids) AS d (id) ORDER BY 1
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    SELECT array_agg(i.incarnation) INTO v_lives FROM instances AS i WHERE i.instance_id = ANY (p_ids);
    -- No turn of theirs can be committed any more, so no more children are sent.
    SELECT array_agg(DISTINCT q.instance_id) INTO v_unborn FROM orchestrator_queue AS q
    WHERE q.sender_incarnation = ANY (v_lives) AND q.instance_id <> ALL (p_ids);
    PERFORM 1 FROM inboxes AS b WHERE b.instance_id = ANY (v_unborn) ORDER BY b.instance_id FOR UPDATE;
    problem := NULL; subject := NULL; other := NULL;
    IF NOT p_force THEN
        SELECT 'running', i.instance_id INTO problem, subject
        FROM unnest(p_ids) WITH ORDINALITY AS d (id, n) JOIN instances AS i ON i.instance_id = d.id
        JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
        WHERE e.status IN ('Running', 'ContinuedAsNew') ORDER BY d.n LIMIT 1;
    END IF;
    IF problem IS NULL THEN
        SELECT 'child', c.parent_instance_id, c.instance_id INTO problem, subject, other
        FROM instances AS c LEFT JOIN instances AS p ON p.instance_id = c.parent_instance_id
        WHERE c.parent_instance_id = ANY (p_ids) AND c.instance_id <> ALL (p_ids)
          AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)
        ORDER BY c.number LIMIT 1;
    END IF;
    IF problem IS NOT NULL THEN
        DELETE FROM inboxes AS b WHERE b.instance_id = ANY (p_ids) AND b.lock_token IS NULL
            AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
        RETURN NEXT;
        RETURN;
    END IF;
    -- Starts of children that have not begun yet: they would come to life without a parent.
    DELETE FROM orchestrator_queue AS q WHERE q.sender_incarnation = ANY (v_lives);
    GET DIAGNOSTICS messages_gone = ROW_COUNT;
    IF v_unborn IS NOT NULL THEN
        SELECT array_agg(u) INTO v_unborn FROM unnest(v_unborn) AS u
        WHERE NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = u);
        PERFORM settle_inboxes(v_unborn);
    END IF;
    DELETE FROM orchestrator_queue AS q WHERE q.instance_id = ANY (p_ids);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    messages_gone := messages_gone + v_rows;
    -- Those that are just moved belong to the next life.
    DELETE FROM arrivals AS a WHERE a.id = ANY (ARRAY(
        SELECT f.id FROM arrivals AS f WHERE f.instance_id = ANY (p_ids) ORDER BY f.id FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    messages_gone := messages_gone + v_rows;
    DELETE FROM worker_queue AS w WHERE w.instance_id = ANY (p_ids);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    messages_gone := messages_gone + v_rows;
    DELETE FROM inboxes AS b WHERE b.instance_id = ANY (p_ids);
    DELETE FROM kv_store AS s WHERE s.instance_id = ANY (p_ids);
    DELETE FROM kv_delta AS d WHERE d.instance_id = ANY (p_ids);
    DELETE FROM history AS h WHERE h.instance_id = ANY (p_ids);
    GET DIAGNOSTICS events_gone = ROW_COUNT;
    DELETE FROM executions AS e WHERE e.instance_id = ANY (p_ids);
    GET DIAGNOSTICS executions_gone = ROW_COUNT;
    DELETE FROM instances AS i WHERE i.instance_id = ANY (p_ids);
    GET DIAGNOSTICS instances_gone = ROW_COUNT;
    RETURN NEXT;
END $$;

-- As an operator asks for it: what waits for longer gives up, and never happens later. `submit` gives up sooner.
CREATE FUNCTION delete_together(p_ids text[], p_force boolean)
RETURNS TABLE (problem text, subject text, other text, instances_gone bigint, executions_gone bigint, events_gone bigint,
    messages_gone bigint)
LANGUAGE sql SET lock_timeout = '5s' AS $$ SELECT * FROM delete_instances(p_ids, p_force) $$;

-- Whether an instance is a root whose current execution ended for good, before a time if one is given.
CREATE FUNCTION is_finished_root(p_instance text, p_before bigint) RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT EXISTS (
        SELECT 1 FROM instances AS i
        JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
        WHERE i.instance_id = p_instance AND e.status IN ('Completed', 'Failed')
          AND (p_before IS NULL OR e.completed_at < p_before)
          AND (i.parent_instance_id IS NULL OR NOT EXISTS (
              SELECT 1 FROM instances AS p WHERE p.instance_id = i.parent_instance_id
              AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation))))
$$;

-- Deletes a root with its tree, unless it came back to life, is another one by now that ended later, or anything in the tree runs. No
-- row: nothing was deleted.
CREATE FUNCTION delete_tree(p_root text, p_before bigint)
RETURNS TABLE (instances_gone bigint, executions_gone bigint, events_gone bigint, messages_gone bigint)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
    v_tree text[];
    v_result record;
BEGIN
    IF NOT is_finished_root(p_root, p_before) THEN
        RETURN;
    END IF;
    SELECT array_agg(t) INTO v_tree FROM instance_tree(p_root) AS t;
    -- From here on the inboxes are ours, also those that are not there. While this waited for them, the root may have been deleted and
    -- started again: what is deleted now would be the start of its next life.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at)
    SELECT DISTINCT d.id COLLATE "C", '', 9223372036854775807 FROM unnest(v_tree) AS d (id) ORDER BY 1
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    IF NOT is_finished_root(p_root, p_before) OR NOT ARRAY(SELECT t FROM instance_tree(p_root) AS t) <@ v_tree THEN
        DELETE FROM inboxes AS b WHERE b.instance_id = ANY (v_tree) AND b.lock_token IS NULL
            AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
        RETURN;
    END IF;
    SELECT * INTO v_result FROM delete_instances(v_tree, false);
    IF v_result.problem IS NULL THEN
        RETURN QUERY SELECT v_result.instances_gone, v_result.executions_gone, v_result.events_gone, v_result.messages_gone;
    END IF;
END $$;

-- One bounded step of pruning: deletes at most so many events of old executions, and those executions that are empty then.
CREATE FUNCTION prune_step(p_instance text, p_keep bigint, p_before bigint, p_rows bigint)
RETURNS TABLE (is_known boolean, executions_gone bigint, events_gone bigint, is_done boolean)
LANGUAGE plpgsql SET lock_timeout = '5s' SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_current bigint;
    v_left bigint := p_rows;
    v_rows bigint;
    v_execution bigint;
BEGIN
    executions_gone := 0; events_gone := 0; is_done := true;
    SELECT i.current_execution_id INTO v_current FROM instances AS i WHERE i.instance_id = p_instance;
    is_known := FOUND;
    FOR v_execution IN
        SELECT e.execution_id FROM executions AS e
        WHERE is_known AND e.instance_id = p_instance AND e.execution_id <> v_current AND e.status <> 'Running'
          AND (p_before IS NULL OR e.completed_at < p_before)
          AND e.execution_id NOT IN (SELECT n.execution_id FROM executions AS n WHERE n.instance_id = p_instance
                                     ORDER BY n.execution_id DESC LIMIT p_keep)
        ORDER BY e.execution_id
    LOOP
        DELETE FROM history AS h WHERE h.instance_id = p_instance AND h.execution_id = v_execution AND h.event_id IN
            (SELECT o.event_id FROM history AS o WHERE o.instance_id = p_instance AND o.execution_id = v_execution
             ORDER BY o.event_id LIMIT v_left);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        events_gone := events_gone + v_rows;
        v_left := v_left - v_rows;
        IF v_left <= 0 THEN
            is_done := false;
            EXIT;
        END IF;
        DELETE FROM executions AS e WHERE e.instance_id = p_instance AND e.execution_id = v_execution;
        executions_gone := executions_gone + 1;
        v_left := v_left - 1;
        IF v_left <= 0 THEN
            is_done := false;
            EXIT;
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;

-- Puts the message of a dead letter back into its queue and forgets the letter, if its instance is still the one that the caller judged
-- by. A deletion and the first turn of another life need the inbox, which is ours until the end. 'changed': judge again, 'gone': there
-- is no such letter.
CREATE FUNCTION requeue_letter(p_expected bigint, p_id bigint, p_instance text, p_incarnation bigint, p_kind text, p_item text, p_begins text,
    p_execution bigint, p_operation bigint, p_name text, p_session text, p_tag text, p_lane text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '5s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_problem text;
BEGIN
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 0)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    IF (SELECT i.incarnation FROM instances AS i WHERE i.instance_id = p_instance) IS DISTINCT FROM p_incarnation THEN
        v_problem := 'changed';
    ELSE
        DELETE FROM dead_letters AS d WHERE d.id = p_id;
        IF NOT FOUND THEN
            v_problem := 'gone';
        ELSIF p_kind = 'ActivityExecute' THEN
            PERFORM enqueue_work(p_expected, ARRAY[p_instance], ARRAY[p_execution], ARRAY[p_operation], ARRAY[p_name], ARRAY[p_item],
                ARRAY[p_session], ARRAY[p_tag], ARRAY[p_lane]);
        ELSE
            PERFORM open_inboxes(p_expected, '{}', ARRAY[p_instance], ARRAY[NULL::bigint], ARRAY[0::bigint], ARRAY[p_begins],
                ARRAY[p_kind = 'CancelInstance']);
            PERFORM enqueue_messages(p_expected, ARRAY[p_instance], ARRAY[p_kind], ARRAY[p_item], ARRAY[NULL::bigint],
                ARRAY[0::bigint], ARRAY[p_begins], ARRAY[p_execution], ARRAY[p_operation], ARRAY[NULL::bigint]);
        END IF;
    END IF;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = p_instance);
    RETURN v_problem;
END $$;
