-- Turns that a node decided on before their messages were stored.
--
-- A node that completes an activity, or starts an instance, and runs the turn that follows itself need not store the message, claim it
-- and delete it again: it decides the turn first, and what it decided is stored in one transaction with what it decided on. The inbox
-- is leased by `open_inboxes` in that transaction and settled by its commit; no other transaction sees the lease. The node assumes how
-- the instance stands, and the transaction checks that: if anything is otherwise, it is taken back as a whole, and the messages are
-- stored and claimed as any others.

-- The error by which a node knows that. `p_instances` are those that stand otherwise, if that is known.
CREATE FUNCTION refuse_early(p_reason text, p_instances text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a turn that was handed out early cannot be stored: %', p_reason
        USING ERRCODE = 'DX002', DETAIL = array_to_json(p_instances)::text;
END $$;

-- The inboxes are open already, and nothing is enqueued yet. `p_incarnation` is NULL for an instance that the turn begins, else `p_execution`
-- and `p_event` say up to where the node knows its history.
CREATE FUNCTION check_early(p_expected bigint, p_instance text[], p_token uuid[], p_incarnation bigint[], p_execution bigint[],
    p_event bigint[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
    v_others text[];
BEGIN
    -- A deletion that finds no inbox does not wait for one: it holds the row of the instance.
    PERFORM 1 FROM instances AS i WHERE i.instance_id = ANY (p_instance) ORDER BY i.instance_id FOR NO KEY UPDATE;
    SELECT array_agg(e.instance_id) INTO v_others
    FROM unnest(p_instance, p_token, p_incarnation, p_execution, p_event) AS e (instance_id, token, incarnation, execution_id, event_id)
    LEFT JOIN inboxes AS b ON b.instance_id = ANY (ARRAY[e.instance_id])
    LEFT JOIN instances AS i ON i.instance_id = e.instance_id
    -- An inbox with another lease, or with messages that come before this turn's.
    WHERE b.lock_token IS DISTINCT FROM e.token
       OR (SELECT true FROM orchestrator_queue AS q WHERE q.instance_id = e.instance_id AND q.visible_at <= v_now LIMIT 1)
       OR CASE WHEN e.incarnation IS NULL
          THEN i.instance_id IS NOT NULL
            OR (SELECT true FROM history AS h WHERE h.instance_id = e.instance_id LIMIT 1)
            OR (SELECT true FROM executions AS x WHERE x.instance_id = e.instance_id LIMIT 1)
          ELSE (i.incarnation = e.incarnation AND i.current_execution_id = e.execution_id
            AND i.paused_at IS NULL AND i.letters IS NULL AND e.event_id =
                (SELECT max(h.event_id) FROM history AS h
                 WHERE h.instance_id = e.instance_id AND h.execution_id = e.execution_id)) IS NOT TRUE END;
    IF v_others IS NOT NULL THEN
        PERFORM refuse_early('the instance does not stand as its node took it to', v_others);
    END IF;
END $$;

-- Turns that take too long to be waited for: their messages were stored in this transaction, at its time, and are claimed by their
-- leases. Timers of the instance are due later than that.
CREATE FUNCTION lease_early(p_expected bigint, p_instance text[], p_token uuid[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
BEGIN
    UPDATE inboxes AS b SET message_ids = q.ids, visible_by = q.visible_by
    FROM unnest(p_instance, p_token) AS e (instance_id, token)
    CROSS JOIN LATERAL (SELECT array_agg(q.id ORDER BY q.id) AS ids, max(q.visible_at) AS visible_by
                        FROM orchestrator_queue AS q WHERE q.instance_id = e.instance_id AND q.visible_at <= v_now) AS q
    WHERE b.instance_id = ANY (ARRAY[e.instance_id]) AND b.lock_token = e.token;
END $$;

-- Processes that have this store open. One that ends uncleanly stays listed, for a day.
CREATE TABLE openings (
    id        uuid PRIMARY KEY,
    opened_at bigint NOT NULL
);

-- Lists a process; returns whether others are listed, which may have ended uncleanly.
CREATE FUNCTION note_opening(p_id uuid) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM openings AS o WHERE o.opened_at < server_ms(clock_timestamp()) - 86400000;
    -- A process whose answer was lost notes it again.
    INSERT INTO openings AS o (id, opened_at) VALUES (p_id, server_ms(clock_timestamp()))
        ON CONFLICT (id) DO UPDATE SET opened_at = excluded.opened_at;
    RETURN (SELECT true FROM openings AS o WHERE o.id <> p_id LIMIT 1) IS NOT NULL;
END $$;

CREATE FUNCTION forget_opening(p_id uuid) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM openings AS o WHERE o.id = p_id;
    RETURN FOUND;
END $$;
