-- For applications: an orchestration is started, an event sent, inside the application's own transaction. It commits or rolls back
-- with the rest. Callers need only EXECUTE on these functions and USAGE of the schema.

-- A text as the store keeps it.
CREATE FUNCTION stored_text(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT replace(p_text, E'\x01', E'\x011') $$;

-- Leaves a message with the arrivals. It touches no row that anybody else needs.
CREATE FUNCTION send_message(p_instance text, p_kind text, p_item json, p_begins text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_instance text := stored_text(p_instance);
    v_item text := json_build_object(p_kind, p_item)::text;
BEGIN
    IF p_instance IS NULL OR p_instance = '' THEN
        RAISE EXCEPTION 'an instance id is needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(v_instance) > 1024 THEN
        RAISE EXCEPTION 'an instance id has at most 1024 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF octet_length(v_item) > 2 * 1024 * 1024 THEN
        RAISE EXCEPTION 'a message has at most 2 MiB' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    INSERT INTO arrivals (instance_id, kind, work_item, begins) VALUES (v_instance, p_kind, v_item, p_begins);
    PERFORM pg_notify(left('duroxide_' || current_schema(), 63), 'sql|t||9223372036854775807|');
END $$;

-- 1 if there are arrivals that can be moved, else 0. A table of arrivals that cannot be read must not cost claims anything: then this
-- says that there are some, and the move says why it fails.
CREATE FUNCTION arrivals_wait(p_now bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT count(*) FROM (
        SELECT 1 FROM arrivals AS a
        WHERE NOT EXISTS (SELECT 1 FROM arrivals AS r
                          WHERE r.rests_until > 0 AND r.rests_until > p_now AND r.instance_id = a.instance_id)
        ORDER BY a.id LIMIT 1) AS w);
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
    RETURN 1;
END $$;

-- Moves arrivals to the queue, in their order. One transaction at a time does: two could overtake each other. Arrivals of an
-- instance whose inbox another transaction holds stay, and hold up no others; so do those of an instance with one that rests (0023).
-- Returns how many it moved, -1 if another transaction is at it or none could be moved.
CREATE FUNCTION receive_arrivals(p_expected bigint, p_max integer) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_time bigint := now_ms(p_expected);
    v_resting text[];
    v_first text[];
    v_free text[];
    v_held text[];
    v_more text[];
    v_instance text[];
    v_kind text[];
    v_item text[];
    v_begins text[];
    v_none bigint[];
    v_now bigint[];
    v_size integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('duroxide arrivals ' || current_schema(), 0)) THEN
        RETURN -1;
    END IF;
    v_resting := ARRAY(SELECT DISTINCT r.instance_id FROM arrivals AS r WHERE r.rests_until > 0 AND r.rests_until > v_time);
    v_held := '{}';
    LOOP
        v_first := ARRAY(SELECT DISTINCT f.instance_id
                         FROM (SELECT a.instance_id FROM arrivals AS a WHERE a.instance_id <> ALL (v_held || v_resting)
                               ORDER BY a.id LIMIT p_max) AS f ORDER BY 1);
        v_free := ARRAY(SELECT b.instance_id FROM inboxes AS b WHERE b.instance_id = ANY (v_first) ORDER BY b.instance_id
                        FOR UPDATE SKIP LOCKED);
        v_more := ARRAY(SELECT b.instance_id FROM inboxes AS b
                        WHERE b.instance_id = ANY (v_first) AND b.instance_id <> ALL (v_free));
        EXIT WHEN v_more = '{}';
        -- Behind those that are held there may be others, whose inboxes were not looked at yet.
        v_held := v_held || v_more;
    END LOOP;
    WITH gone AS (
        DELETE FROM arrivals AS a WHERE a.id = ANY (ARRAY(
            SELECT f.id FROM arrivals AS f WHERE f.instance_id = ANY (v_first) ORDER BY f.id LIMIT p_max))
        RETURNING a.id, a.instance_id, a.kind, a.work_item, a.begins)
    SELECT array_agg(g.instance_id ORDER BY g.id), array_agg(g.kind ORDER BY g.id), array_agg(g.work_item ORDER BY g.id),
           array_agg(g.begins ORDER BY g.id)
    INTO v_instance, v_kind, v_item, v_begins FROM gone AS g;
    v_size := coalesce(cardinality(v_instance), 0);
    IF v_size > 0 THEN
        v_none := array_fill(NULL::bigint, ARRAY[v_size]);
        v_now := array_fill(0::bigint, ARRAY[v_size]);
        PERFORM open_inboxes(p_expected, '{}', v_instance, v_none, v_now, v_begins,
            ARRAY(SELECT k.kind = 'CancelInstance' FROM unnest(v_kind) WITH ORDINALITY AS k (kind, n) ORDER BY k.n));
        PERFORM enqueue_messages(p_expected, v_instance, v_kind, v_item, v_none, v_now, v_begins, v_none, v_none, v_none);
    ELSIF cardinality(v_held) > 0 THEN
        RETURN -1;
    END IF;
    RETURN v_size;
END $$;

CREATE FUNCTION start_orchestration(instance_id text, name text, input text, version text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF name IS NULL OR input IS NULL OR name = '' THEN
        RAISE EXCEPTION 'a name and an input are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF instance_id LIKE 'sub::%' OR instance_id LIKE '%::sub::%' THEN
        RAISE EXCEPTION 'ids with sub:: belong to children' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM send_message(instance_id, 'StartOrchestration', json_build_object('instance', instance_id, 'orchestration', name,
        -- Labels travel in front of an input: an input that begins like them gets a prefix that says it has none.
        'input', CASE WHEN starts_with(input, 'duroxide:labels:') THEN 'duroxide:labels:2:{}' ELSE '' END || input,
        'version', version, 'parent_instance', NULL, 'parent_id', NULL, 'execution_id', 1),
        '[' || to_json(name)::text || ',' || coalesce(to_json(version)::text, 'null') || ',null]');
END $$;

CREATE FUNCTION raise_event(instance_id text, event_name text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF event_name IS NULL OR data IS NULL THEN
        RAISE EXCEPTION 'a name and data are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM send_message(instance_id, 'ExternalRaised',
        json_build_object('instance', instance_id, 'name', event_name, 'data', data), NULL);
END $$;

-- Queues under which the engine carries something of its own: a message on one of them would pass for that. Requests travel on
-- others that begin alike, and are messages.
CREATE FUNCTION is_engine_queue(queue text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT queue IN ('duroxide:keys', 'duroxide:rewind', 'duroxide:labels', 'duroxide:start') $$;

CREATE FUNCTION enqueue_event(instance_id text, queue text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF queue IS NULL OR data IS NULL THEN
        RAISE EXCEPTION 'a name and data are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF is_engine_queue(queue) THEN
        RAISE EXCEPTION 'the queue % is the engine''s own', queue USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM send_message(instance_id, 'QueueMessage',
        json_build_object('instance', instance_id, 'name', queue, 'data', data), NULL);
END $$;

CREATE FUNCTION cancel_instance(instance_id text, reason text DEFAULT 'cancelled') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF reason IS NULL THEN
        RAISE EXCEPTION 'a reason is needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM send_message(instance_id, 'CancelInstance', json_build_object('instance', instance_id, 'reason', reason), NULL);
END $$;

REVOKE ALL ON FUNCTION start_orchestration, raise_event, enqueue_event, cancel_instance, send_message FROM PUBLIC;
