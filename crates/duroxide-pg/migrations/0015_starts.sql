-- What a start carries beside its input and its labels.

-- JSON, at most 4 KiB, for people who look at the instance.
ALTER TABLE instances ADD COLUMN memo text;

-- Keys, labels and what a start gave are the engine's own.
CREATE OR REPLACE FUNCTION carries(p_kind text, p_item text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT p_kind = 'ContinueAsNew' AND position('"carry_forward_events":[[' IN p_item) > 0
    AND p_item ~ '"carry_forward_events":\[(\["duroxide:(keys|labels|start)","([^"\\]|\\.)*"\],)*\["(?!duroxide:(keys|labels|start)")' $$;

CREATE OR REPLACE FUNCTION start_orchestration(instance_id text, name text, input text, version text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF name IS NULL OR input IS NULL OR name = '' THEN
        RAISE EXCEPTION 'a name and an input are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF instance_id LIKE 'sub::%' OR instance_id LIKE '%::sub::%' THEN
        RAISE EXCEPTION 'ids with sub:: belong to children' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM send_message(instance_id, 'StartOrchestration', json_build_object('instance', instance_id, 'orchestration', name,
        -- What a start carries travels in front of an input: an input that begins like it gets a prefix that says it carries nothing.
        'input', CASE WHEN starts_with(input, 'duroxide:labels:') THEN 'duroxide:labels:2:{}'
                      WHEN starts_with(input, 'duroxide:start:') THEN 'duroxide:start:2:{}' ELSE '' END || input,
        'version', version, 'parent_instance', NULL, 'parent_id', NULL, 'execution_id', 1),
        '[' || to_json(name)::text || ',' || coalesce(to_json(version)::text, 'null') || ',null]');
END $$;
