-- Instances that a node noted it cannot go on with. A note holds while the instance has no event beyond the one it had then, and has
-- not ended: a turn that goes on writes nothing here. The note goes with the instance.
CREATE TABLE blocked (
    instance_id   text COLLATE "C" PRIMARY KEY,
    incarnation   bigint,
    execution_id  bigint  NOT NULL,
    last_event_id bigint  NOT NULL,
    name          text    NOT NULL,
    report        text    NOT NULL,
    attempts      bigint  NOT NULL,
    node          text    NOT NULL,
    noted_at      bigint  NOT NULL
);

-- Labels and notes go with their instance.
CREATE OR REPLACE FUNCTION end_labels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM labels AS l USING gone AS g WHERE l.instance_id = g.instance_id;
    DELETE FROM blocked AS b USING gone AS g WHERE b.instance_id = g.instance_id;
    RETURN NULL;
END $$;

-- NULL if the lease is lost; whether it is noted: not if the instance has not begun. The inbox keeps turns and deletions away meanwhile.
CREATE FUNCTION note_blocked(p_expected bigint, p_instance text, p_token uuid, p_name text, p_report text, p_attempts bigint, p_node text)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
BEGIN
    PERFORM refuse_if_closed();
    PERFORM 1 FROM inboxes AS b
    WHERE b.instance_id = p_instance AND b.lock_token = p_token AND b.locked_until > v_now FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO blocked AS b (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
    SELECT i.instance_id, i.incarnation, i.current_execution_id, h.event_id, p_name, p_report, p_attempts, p_node, v_now
    FROM instances AS i JOIN history AS h ON h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id
    WHERE i.instance_id = p_instance ORDER BY h.event_id DESC LIMIT 1
    ON CONFLICT (instance_id) DO UPDATE SET incarnation = excluded.incarnation, execution_id = excluded.execution_id,
        last_event_id = excluded.last_event_id, name = excluded.name, report = excluded.report, attempts = excluded.attempts,
        node = excluded.node, noted_at = excluded.noted_at;
    RETURN FOUND;
END $$;
