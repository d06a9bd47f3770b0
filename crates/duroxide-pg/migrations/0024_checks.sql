-- What an application sends in its own transaction is checked as a client checks it: what no client may send is refused there, in the
-- words of the client, and is no message that every node stumbles over later. A refusal has SQLSTATE 22023 and its code in the detail.

-- Refuses what cannot be sent.
CREATE FUNCTION refuse_to_send(p_what text, p_instance text, p_why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- An id that is refused may be long.
    RAISE EXCEPTION '% for ''%'' cannot be stored: %', p_what, left(p_instance, 64), p_why
        USING ERRCODE = 'invalid_parameter_value', DETAIL = 'D0218';
END $$;

-- Refuses an id that no instance can have, and a text that is longer than a client may send.
CREATE FUNCTION check_to_send(p_what text, p_instance text, p_names text[], p_texts text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_bytes integer := octet_length(p_instance);
BEGIN
    IF p_instance IS NULL OR p_instance = '' THEN
        PERFORM refuse_to_send(p_what, '', 'instance id must not be empty');
    END IF;
    IF v_bytes > 1024 THEN
        PERFORM refuse_to_send(p_what, p_instance, format('instance id size (%s bytes) exceeds limit (1024 bytes)', v_bytes));
    END IF;
    FOR place IN 1 .. cardinality(p_texts) LOOP
        IF p_texts[place] IS NULL THEN
            PERFORM refuse_to_send(p_what, p_instance, p_names[place] || ' must not be null');
        END IF;
        v_bytes := octet_length(p_texts[place]);
        IF v_bytes > 2097152 THEN
            PERFORM refuse_to_send(p_what, p_instance,
                format('%s size (%s bytes) exceeds limit (2097152 bytes)', p_names[place], v_bytes));
        END IF;
    END LOOP;
END $$;

-- Leaves a message with the arrivals. It touches no row that anybody else needs. Its parts have been checked.
CREATE OR REPLACE FUNCTION send_message(p_instance text, p_kind text, p_item json, p_begins text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO arrivals (instance_id, kind, work_item, begins)
    VALUES (stored_text(p_instance), p_kind, json_build_object(p_kind, p_item)::text, p_begins);
    PERFORM pg_notify(left('duroxide_' || current_schema(), 63), 'sql|t||9223372036854775807|');
END $$;

CREATE OR REPLACE FUNCTION start_orchestration(instance_id text, name text, input text, version text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_lane text;
BEGIN
    PERFORM check_to_send('a start', instance_id, ARRAY['orchestration name', 'version', 'orchestration input'],
        ARRAY[name, coalesce(version, ''), input]);
    IF starts_with(instance_id, 'sub::') OR position('::sub::' IN instance_id) > 0 THEN
        PERFORM refuse_to_send('a start', instance_id, 'ids with ''sub::'' belong to children');
    END IF;
    IF name = '' THEN
        PERFORM refuse_to_send('a start', instance_id, 'the orchestration has no name');
    END IF;
    v_lane := '[' || to_json(name)::text || ',' || coalesce(to_json(version)::text, 'null') || ',null]';
    IF octet_length(v_lane) > 2500 THEN
        PERFORM refuse_to_send('a start', instance_id,
            format('the lane has %s bytes, at most 2500 can be indexed', octet_length(v_lane)));
    END IF;
    PERFORM send_message(instance_id, 'StartOrchestration', json_build_object('instance', instance_id, 'orchestration', name,
        -- What a start carries travels in front of an input: an input that begins like it gets a prefix that says it carries nothing.
        'input', CASE WHEN starts_with(input, 'duroxide:labels:') THEN 'duroxide:labels:2:{}'
                      WHEN starts_with(input, 'duroxide:start:') THEN 'duroxide:start:2:{}' ELSE '' END || input,
        'version', version, 'parent_instance', NULL, 'parent_id', NULL, 'execution_id', 1), v_lane);
END $$;

CREATE OR REPLACE FUNCTION raise_event(instance_id text, event_name text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM check_to_send('an event', instance_id, ARRAY['event name', 'event data'], ARRAY[event_name, data]);
    PERFORM send_message(instance_id, 'ExternalRaised',
        json_build_object('instance', instance_id, 'name', event_name, 'data', data), NULL);
END $$;

CREATE OR REPLACE FUNCTION enqueue_event(instance_id text, queue text, data text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM check_to_send('a queue message', instance_id, ARRAY['queue name', 'event data'], ARRAY[queue, data]);
    IF is_engine_queue(queue) THEN
        PERFORM refuse_to_send('a queue message', instance_id, format('the queue ''%s'' is the engine''s own', queue));
    END IF;
    PERFORM send_message(instance_id, 'QueueMessage', json_build_object('instance', instance_id, 'name', queue,
        -- The key of a message travels in front of it: one that begins like it gets a prefix that says it has none.
        'data', CASE WHEN starts_with(data, 'duroxide:key:') THEN 'duroxide:key:0:' ELSE '' END || data), NULL);
END $$;

CREATE OR REPLACE FUNCTION cancel_instance(instance_id text, reason text DEFAULT 'cancelled') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM check_to_send('a request to cancel', instance_id, ARRAY['cancel reason'], ARRAY[reason]);
    IF starts_with(reason, 'duroxide:terminate:') THEN
        PERFORM refuse_to_send('a request to cancel', instance_id,
            'a reason must not begin with the reserved ''duroxide:terminate:''');
    END IF;
    PERFORM send_message(instance_id, 'CancelInstance', json_build_object('instance', instance_id, 'reason', reason), NULL);
END $$;

REVOKE ALL ON FUNCTION refuse_to_send, check_to_send FROM PUBLIC;
