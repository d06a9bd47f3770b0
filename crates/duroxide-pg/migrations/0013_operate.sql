-- Labels of instances.
CREATE TABLE labels (
    instance_id text COLLATE "C" NOT NULL REFERENCES instances (instance_id) ON DELETE CASCADE,
    key         text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_id, key)
);
CREATE INDEX idx_labels_value ON labels (key, value, instance_id);

-- Labels that an instance begins with, or that its code changes, are committed as key-values under a reserved prefix; they are kept
-- here instead.
CREATE FUNCTION keep_label() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.value IS NULL THEN
        DELETE FROM labels AS l WHERE l.instance_id = NEW.instance_id AND l.key = substr(NEW.key, 16);
    ELSE
        INSERT INTO labels AS l (instance_id, key, value)
        SELECT i.instance_id, substr(NEW.key, 16), NEW.value FROM instances AS i WHERE i.instance_id = NEW.instance_id
        ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER kv_delta_labels BEFORE INSERT ON kv_delta FOR EACH ROW
    WHEN (left(NEW.key, 15) = 'duroxide:label:') EXECUTE FUNCTION keep_label();

-- An operator's change: all together or none. `outcome`: 0 done, with the labels after it; 1 too many, with their number; 2 no such
-- instance. The row of the instance is locked first, as a commit does.
CREATE FUNCTION change_labels(p_instance text, p_keys text[], p_values text[], p_max integer)
RETURNS TABLE (outcome integer, number integer, keys text[], contents text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_before integer;
    v_after integer;
BEGIN
    PERFORM 1 FROM instances AS i WHERE i.instance_id = p_instance FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 2, 0, NULL::text[], NULL::text[];
        RETURN;
    END IF;
    SELECT count(*) INTO v_before FROM labels AS l WHERE l.instance_id = p_instance;
    SELECT count(*) INTO v_after FROM (
        SELECT l.key FROM labels AS l WHERE l.instance_id = p_instance AND l.key <> ALL (p_keys)
        UNION ALL
        SELECT c.key FROM unnest(p_keys, p_values) AS c (key, value) WHERE c.value IS NOT NULL) AS k;
    IF v_after > p_max AND v_after > v_before THEN
        RETURN QUERY SELECT 1, v_after, NULL::text[], NULL::text[];
        RETURN;
    END IF;
    DELETE FROM labels AS l WHERE l.instance_id = p_instance AND l.key = ANY (p_keys);
    INSERT INTO labels (instance_id, key, value)
    SELECT p_instance, c.key, c.value FROM unnest(p_keys, p_values) AS c (key, value) WHERE c.value IS NOT NULL;
    RETURN QUERY SELECT 0, v_after, array_agg(l.key), array_agg(l.value) FROM labels AS l WHERE l.instance_id = p_instance;
END $$;
