-- Labels of instances.
CREATE TABLE labels (
    instance_id text COLLATE "C" NOT NULL REFERENCES instances (instance_id) ON DELETE CASCADE,
    key         text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_id, key)
);
CREATE INDEX idx_labels_value ON labels (key, value, instance_id);

-- Labels that instances begin with, or that their code changes; part of `commit_turns`, with its settings. A turn that writes no
-- instance leaves none behind.
CREATE FUNCTION commit_labels(l_instance text[], l_key text[], l_value text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF array_position(l_value, NULL) IS NOT NULL THEN
        DELETE FROM labels AS l USING unnest(l_instance, l_key, l_value) AS c (instance_id, key, value)
        WHERE c.value IS NULL AND l.instance_id = c.instance_id AND l.key = c.key;
    END IF;
    INSERT INTO labels AS l (instance_id, key, value)
    SELECT i.instance_id, c.key, c.value FROM unnest(l_instance, l_key, l_value) AS c (instance_id, key, value)
    JOIN instances AS i ON i.instance_id = c.instance_id WHERE c.value IS NOT NULL
    ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value;
END $$;

-- An operator's change: all together or none. `outcome`: 0 done, with the labels after it; 1 too many, with their number; 2 no such
-- instance. The row of the instance is locked first, as a commit does.
CREATE FUNCTION change_labels(p_instance text, p_keys text[], p_values text[], p_max integer)
RETURNS TABLE (outcome integer, number integer, keys text[], contents text[]) LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
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

-- Nodes on this store, as they say of themselves (JSON). Each writes its row every few seconds.
CREATE TABLE nodes (
    id        text COLLATE "C" PRIMARY KEY,
    info      text   NOT NULL,
    seen_at   bigint NOT NULL,
    gone_at   bigint NOT NULL,
    forget_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION announce_node(p_expected bigint, p_id text, p_info text, p_gone bigint, p_forget bigint) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
BEGIN
    INSERT INTO nodes AS n (id, info, seen_at, gone_at, forget_at)
    VALUES (p_id, p_info, v_now, v_now + p_gone, v_now + p_gone + p_forget)
    ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, gone_at = excluded.gone_at,
        forget_at = excluded.forget_at;
    -- Two nodes that clean up at once do not wait for each other.
    DELETE FROM nodes AS n WHERE n.id IN
        (SELECT o.id FROM nodes AS o WHERE o.forget_at <= v_now AND o.id <> p_id ORDER BY o.id FOR UPDATE SKIP LOCKED);
    RETURN 0;
END $$;

CREATE FUNCTION forget_node(p_id text) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM nodes AS n WHERE n.id = p_id;
    RETURN 0;
END $$;

-- What one node at a time does.
CREATE TABLE duties (
    duty       text COLLATE "C" PRIMARY KEY,
    holder     text   NOT NULL,
    held_until bigint NOT NULL
) WITH (fillfactor = 50);

-- Takes or keeps a duty for a while, or gives it back with no time; whether the holder has it.
CREATE FUNCTION hold_duty(p_expected bigint, p_duty text, p_holder text, p_for bigint) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
BEGIN
    IF p_for = 0 THEN
        DELETE FROM duties AS d WHERE d.duty = p_duty AND d.holder = p_holder;
        RETURN false;
    END IF;
    INSERT INTO duties AS d (duty, holder, held_until) VALUES (p_duty, p_holder, v_now + p_for)
    ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
    WHERE d.holder = excluded.holder OR d.held_until <= v_now;
    RETURN FOUND;
END $$;
