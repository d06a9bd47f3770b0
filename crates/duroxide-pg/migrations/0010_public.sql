-- For applications: an orchestration is started, an event sent, inside the application's own transaction. It commits or rolls back
-- with the rest. Callers need only EXECUTE on these functions and USAGE of the schema.

-- A text as the store keeps it.
CREATE FUNCTION stored_text(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT replace(p_text, E'\x01', E'\x011') $$;

CREATE FUNCTION send_message(p_instance text, p_kind text, p_item json, p_begins text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_instance text := stored_text(p_instance);
BEGIN
    IF p_instance IS NULL THEN
        RAISE EXCEPTION 'an instance id is needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(v_instance) > 1024 THEN
        RAISE EXCEPTION 'an instance id has at most 1024 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    PERFORM open_inboxes(0, '{}', ARRAY[v_instance], ARRAY[NULL]::bigint[], ARRAY[0]::bigint[], ARRAY[p_begins],
        ARRAY[p_kind = 'CancelInstance']);
    PERFORM enqueue_messages(0, ARRAY[v_instance], ARRAY[p_kind], ARRAY[json_build_object(p_kind, p_item)::text],
        ARRAY[NULL]::bigint[], ARRAY[0]::bigint[], ARRAY[p_begins], ARRAY[NULL]::bigint[], ARRAY[NULL]::bigint[],
        ARRAY[NULL]::bigint[]);
    PERFORM pg_notify(left('duroxide_' || current_schema(), 63), 'sql|t|');
END $$;

CREATE FUNCTION start_orchestration(instance_id text, name text, input text, version text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF name IS NULL OR input IS NULL THEN
        RAISE EXCEPTION 'a name and an input are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM send_message(instance_id, 'StartOrchestration', json_build_object('instance', instance_id, 'orchestration', name,
        'input', input, 'version', version, 'parent_instance', NULL, 'parent_id', NULL, 'execution_id', 1),
        '[' || to_json(name)::text || ',' || coalesce(to_json(version)::text, 'null') || ',null]');
END $$;

CREATE FUNCTION raise_event(instance_id text, event_name text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM send_message(instance_id, 'ExternalRaised',
        json_build_object('instance', instance_id, 'name', event_name, 'data', data), NULL);
END $$;

CREATE FUNCTION enqueue_event(instance_id text, queue text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM send_message(instance_id, 'QueueMessage',
        json_build_object('instance', instance_id, 'name', queue, 'data', data), NULL);
END $$;

CREATE FUNCTION cancel_instance(instance_id text, reason text DEFAULT 'cancelled') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM send_message(instance_id, 'CancelInstance', json_build_object('instance', instance_id, 'reason', reason), NULL);
END $$;

REVOKE ALL ON FUNCTION start_orchestration, raise_event, enqueue_event, cancel_instance, send_message FROM PUBLIC;
