-- A start and its messages, under a rule about what has the id.

-- What has an id: 0 nothing, 1 a start that is queued, 2 an instance that runs, 3 one that has ended. Who holds the inbox gets an
-- answer that stays true: starts, commits and deletions need it.
CREATE FUNCTION standing_of(p_instance text) RETURNS integer
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_status text;
BEGIN
    SELECT e.status INTO v_status FROM instances AS i
    LEFT JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
    WHERE i.instance_id = p_instance;
    IF NOT FOUND THEN
        -- Commits that never named a handler leave executions without an instance.
        SELECT e.status INTO v_status FROM executions AS e WHERE e.instance_id = p_instance ORDER BY e.execution_id DESC LIMIT 1;
    END IF;
    IF FOUND THEN
        RETURN CASE WHEN v_status IN ('Completed', 'Failed') THEN 3 ELSE 2 END;
    END IF;
    -- In one statement: a start that is just moved from the arrivals to the queue is in one of them.
    RETURN (SELECT CASE WHEN EXISTS (SELECT 1 FROM orchestrator_queue AS q
                                     WHERE q.instance_id = p_instance AND q.kind = 'StartOrchestration')
                          OR EXISTS (SELECT 1 FROM arrivals AS a WHERE a.instance_id = p_instance AND a.begins IS NOT NULL)
                        THEN 1 ELSE 0 END);
END $$;

-- Whether what has an id, found as this, began with this request: its start, or the first event of its current execution, carries the
-- request in front of everything else. Texts that others gave stand in quotes of their own there, and cannot look like it.
CREATE FUNCTION began_by(p_instance text, p_found integer, p_request text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_carried text := '\{\\"request\\":\\"' || p_request || '\\"';
BEGIN
    IF p_found = 1 THEN
        v_carried := '"input":"duroxide:start:[0-9]+:' || v_carried;
        RETURN EXISTS (SELECT 1 FROM orchestrator_queue AS q
                       WHERE q.instance_id = p_instance AND q.kind = 'StartOrchestration' AND q.work_item ~ v_carried)
            OR EXISTS (SELECT 1 FROM arrivals AS a
                       WHERE a.instance_id = p_instance AND a.begins IS NOT NULL AND a.work_item ~ v_carried);
    END IF;
    v_carried := '\["duroxide:start","' || v_carried;
    RETURN coalesce((SELECT h.event_data ~ v_carried FROM instances AS i
                     JOIN history AS h ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
                     WHERE i.instance_id = p_instance ORDER BY h.event_id LIMIT 1), false);
END $$;

-- `p_steps`: what to do for each standing: 0 nothing, 1 store the messages, 2 the start and the messages, 3 that, in place of what has
-- ended. The start is the first item, if there is one. Returns what was found and what was done; found 4: it has ended and cannot go
-- alone; done -1: the tree grew while its inboxes were locked, ask again; done 4: nothing, because the same request did it before. With
-- `p_life`, another life of the id counts as if nothing had it. Who waits for a lock gives up soon: a call that its client has given up
-- must not be carried out later.
CREATE FUNCTION submit(p_expected bigint, p_instance text, p_steps bigint[], p_starts boolean, p_kind text[], p_item text[],
    p_delay bigint[], p_begins text[], p_request text, p_life bigint) RETURNS TABLE (o_found integer, o_done integer)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_locked text[] := ARRAY[p_instance];
    v_tree text[];
    v_problem text;
    v_from integer := 1;
    v_size integer;
BEGIN
    IF 3 = ANY (p_steps) AND standing_of(p_instance) = 3 THEN
        SELECT array_agg(t) INTO v_locked FROM instance_tree(p_instance) AS t;
    END IF;
    -- All inboxes in one pass and in their order, also those that are not there: from here on they are ours.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at)
    SELECT DISTINCT d.id COLLATE "C", '', 9223372036854775807 FROM unnest(v_locked) AS d (id) ORDER BY 1
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    o_found := standing_of(p_instance);
    -- The inbox is ours: this life cannot be deleted before the end.
    IF p_life IS NOT NULL AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = p_instance AND i.incarnation = p_life) THEN
        o_found := 0;
    END IF;
    o_done := p_steps[o_found + 1];
    IF p_request IS NOT NULL AND o_found > 0 AND began_by(p_instance, o_found, p_request) THEN
        o_done := 4;
    END IF;
    IF o_done = 3 THEN
        IF NOT is_finished_root(p_instance, NULL) THEN
            o_found := 4;
            o_done := 0;
        ELSE
            SELECT array_agg(t) INTO v_tree FROM instance_tree(p_instance) AS t;
            IF NOT v_tree <@ v_locked THEN
                o_done := -1;
            ELSE
                SELECT d.problem INTO v_problem FROM delete_instances(v_tree, false) AS d;
                IF v_problem = 'running' THEN
                    o_found := 4;
                    o_done := 0;
                ELSIF v_problem IS NOT NULL THEN
                    o_done := -1;
                END IF;
            END IF;
        END IF;
    END IF;
    -- What was made only to be locked goes: what opens the inbox makes it with its lane.
    DELETE FROM inboxes AS b WHERE b.instance_id = ANY (v_locked) AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
    IF o_done = 1 AND p_starts THEN
        v_from := 2;
    END IF;
    v_size := cardinality(p_kind) - v_from + 1;
    IF o_done BETWEEN 1 AND 3 AND v_size > 0 THEN
        PERFORM open_inboxes(p_expected, '{}', array_fill(p_instance, ARRAY[v_size]), array_fill(NULL::bigint, ARRAY[v_size]),
            p_delay[v_from:], p_begins[v_from:],
            ARRAY(SELECT k.kind = 'CancelInstance' FROM unnest(p_kind[v_from:]) WITH ORDINALITY AS k (kind, n) ORDER BY k.n));
        PERFORM enqueue_messages(p_expected, array_fill(p_instance, ARRAY[v_size]), p_kind[v_from:], p_item[v_from:],
            array_fill(NULL::bigint, ARRAY[v_size]), p_delay[v_from:], p_begins[v_from:], array_fill(NULL::bigint, ARRAY[v_size]),
            array_fill(NULL::bigint, ARRAY[v_size]), array_fill(NULL::bigint, ARRAY[v_size]));
    END IF;
    RETURN NEXT;
END $$;
