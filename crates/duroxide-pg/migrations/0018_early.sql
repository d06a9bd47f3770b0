-- Turns that a node decided on before their messages were stored.
--
-- A node that completes an activity, or starts an instance, and runs the turn that follows itself need not store the message, claim it
-- and delete it again: it decides the turn first, and what it decided is stored in one transaction with what it decided on. The inbox
-- is leased by `open_inboxes` in that transaction and goes with its commit; no other transaction ever sees it. The node assumes how
-- the instance stands, and the transaction checks that: if anything is otherwise, it is taken back as a whole, and the messages are
-- stored and claimed as any others.

-- The error by which a node knows that.
CREATE FUNCTION refuse_early(p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a turn that was handed out early cannot be stored: %', p_reason USING ERRCODE = 'DX001';
END $$;

-- The inboxes are open already. `p_life` is NULL for an instance that the turn begins, else `p_execution` and `p_event` say up to where
-- the node knows its history.
CREATE FUNCTION check_early(p_instance text[], p_token uuid[], p_life bigint[], p_execution bigint[], p_event bigint[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    -- A deletion that finds no inbox does not wait for one: it holds the row of the instance.
    PERFORM 1 FROM instances AS i WHERE i.instance_id = ANY (p_instance) ORDER BY i.instance_id FOR NO KEY UPDATE;
    IF EXISTS (
        SELECT 1 FROM unnest(p_instance, p_token, p_life, p_execution, p_event) AS e (instance_id, token, life, execution_id, event_id)
        LEFT JOIN inboxes AS b ON b.instance_id = e.instance_id
        LEFT JOIN instances AS i ON i.instance_id = e.instance_id
        -- An inbox that was there before has another lease or none, and perhaps messages that come before this turn's.
        WHERE b.lock_token IS DISTINCT FROM e.token
           OR CASE WHEN e.life IS NULL
              THEN i.instance_id IS NOT NULL
                OR (SELECT true FROM history AS h WHERE h.instance_id = e.instance_id LIMIT 1)
              ELSE (i.incarnation = e.life AND i.current_execution_id = e.execution_id
                AND i.paused_at IS NULL AND i.letters IS NULL AND e.event_id =
                    (SELECT max(h.event_id) FROM history AS h
                     WHERE h.instance_id = e.instance_id AND h.execution_id = e.execution_id)) IS NOT TRUE END) THEN
        PERFORM refuse_early('the instance does not stand as its node took it to');
    END IF;
END $$;

-- Turns that take too long to be waited for: their messages were stored in this transaction, and are claimed by their leases.
CREATE FUNCTION lease_early(p_instance text[], p_token uuid[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    UPDATE inboxes AS b SET message_ids = q.ids, visible_by = q.visible_by
    FROM unnest(p_instance, p_token) AS e (instance_id, token)
    CROSS JOIN LATERAL (SELECT array_agg(q.id ORDER BY q.id) AS ids, max(q.visible_at) AS visible_by
                        FROM orchestrator_queue AS q WHERE q.instance_id = e.instance_id) AS q
    WHERE b.instance_id = e.instance_id AND b.lock_token = e.token;
END $$;
