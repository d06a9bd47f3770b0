-- What is for one life of an id alone: another life counts as if nothing had the id.

-- As before (0017), with the life that it is for.
DROP FUNCTION submit(bigint, text, bigint[], boolean, text[], text[], bigint[], text[], text);
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

-- Locks the inbox, also one that is not there, as a pause and a deletion do; whether the instance is this life. If not, what was made
-- only to be locked goes.
CREATE FUNCTION holds_life(p_instance text, p_life bigint) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 9223372036854775807)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    IF EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = p_instance AND i.incarnation = p_life) THEN
        RETURN true;
    END IF;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
    RETURN false;
END $$;

CREATE FUNCTION pause_life(p_expected bigint, p_instance text, p_life bigint) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
    RETURN CASE WHEN holds_life(p_instance, p_life) THEN pause_instance(p_expected, p_instance) ELSE 2 END;
END $$;

CREATE FUNCTION resume_life(p_instance text, p_life bigint) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
    RETURN CASE WHEN holds_life(p_instance, p_life) THEN resume_instance(p_instance) ELSE 2 END;
END $$;
