-- What the holder of a turn does with it besides committing it.

-- Each element: no row if it went well, else what is wrong; `held` if another transaction holds its inbox: then the renewal does not
-- wait (`renewal_patience`, 0008), and neither do the others with it.
CREATE FUNCTION renew_turns(p_expected bigint, p_instance text[], p_token uuid[], p_for bigint[])
RETURNS TABLE (n integer, problem text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + renewal_patience();
    v_now bigint;
    v_free text[];
BEGIN
    LOOP
        v_free := ARRAY(SELECT b.instance_id FROM inboxes AS b WHERE b.instance_id = ANY (p_instance) ORDER BY b.instance_id
                        FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(v_free) >= (SELECT count(*) FROM inboxes AS b WHERE b.instance_id = ANY (p_instance))
            OR clock_timestamp() > v_until;
        PERFORM pg_sleep(0.005);
    END LOOP;
    v_now := now_ms(p_expected);
    RETURN QUERY SELECT r.n::integer, CASE WHEN b.lock_token IS DISTINCT FROM r.token THEN 'unknown'
                                           WHEN b.locked_until > v_now THEN 'held' ELSE 'expired' END
        FROM unnest(p_instance, p_token) WITH ORDINALITY AS r (instance_id, token, n)
        LEFT JOIN inboxes AS b ON b.instance_id = ANY (ARRAY[r.instance_id])
        WHERE (b.lock_token = r.token AND b.locked_until > v_now AND r.instance_id = ANY (v_free)) IS NOT TRUE;
    UPDATE inboxes AS b SET locked_until = v_now + r.extend
    FROM unnest(p_instance, p_token, p_for) AS r (instance_id, token, extend)
    WHERE r.instance_id = ANY (v_free) AND b.instance_id = ANY (ARRAY[r.instance_id]) AND b.lock_token = r.token
      AND b.locked_until > v_now;
END $$;

-- Gives a turn back; touches exactly the messages of the claim. `false`: the token is not the last one that was granted.
CREATE FUNCTION abandon_turn(p_expected bigint, p_instance text, p_token uuid, p_delay bigint, p_ignore boolean)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
    v_inbox inboxes;
BEGIN
    SELECT * INTO v_inbox FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_delay IS NOT NULL OR NOT p_ignore THEN
        UPDATE orchestrator_queue AS q SET visible_at = coalesce(v_now + p_delay, q.visible_at),
            attempt_count = q.attempt_count + CASE WHEN p_ignore THEN 0 ELSE 1 END
        WHERE q.instance_id = p_instance AND q.visible_at <= v_inbox.visible_by AND q.id = ANY (v_inbox.message_ids);
    END IF;
    PERFORM settle_inboxes(ARRAY[p_instance]);
    RETURN true;
END $$;

-- Moves messages of a claim to the dead letters, by their place in it, which begins at 1 here.
-- Returns NULL if the lease is lost, else how many messages the claim has.
CREATE FUNCTION set_aside_messages(p_expected bigint, p_instance text, p_token uuid, p_places integer[], p_reason text)
RETURNS integer LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_inbox inboxes;
    v_ids bigint[];
BEGIN
    SELECT * INTO v_inbox FROM inboxes AS b
    WHERE b.instance_id = p_instance AND b.lock_token = p_token AND b.locked_until > v_now FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF (SELECT max(p) FROM unnest(p_places) AS p) <= cardinality(v_inbox.message_ids) THEN
        SELECT array_agg(v_inbox.message_ids[p]) INTO v_ids FROM unnest(p_places) AS p;
        WITH gone AS (
            DELETE FROM orchestrator_queue AS q
            WHERE q.instance_id = p_instance AND q.visible_at <= v_inbox.visible_by AND q.id = ANY (v_ids)
            RETURNING q.id, q.work_item)
        INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, incarnation)
        SELECT 'orchestrator', p_instance, g.work_item, p_reason, v_now,
            (SELECT i.incarnation FROM instances AS i WHERE i.instance_id = p_instance)
        FROM gone AS g ORDER BY g.id;
    END IF;
    RETURN cardinality(v_inbox.message_ids);
END $$;

-- Moves messages of a claim that do not decode to the dead letters, and enqueues what takes the place of those that an operation
-- waits for: at the instance itself, or at `p_target`, whose inbox is open.
-- The claim is counted without them. If nothing is left of it the lease ends: there is no turn to run.
CREATE FUNCTION set_aside_undecodable(p_expected bigint, p_instance text, p_token uuid, p_id bigint[], p_reason text[],
    p_stand_in text[], p_stand_in_kind text[], p_target text[])
RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := now_ms(p_expected);
    v_inbox inboxes;
    v_left bigint[];
BEGIN
    SELECT * INTO v_inbox FROM inboxes AS b
    WHERE b.instance_id = p_instance AND b.lock_token = p_token AND b.locked_until > v_now FOR UPDATE;
    -- A lease that ran out meanwhile belongs to another node, which finds the same messages.
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM orchestrator_queue AS q
        WHERE q.instance_id = p_instance AND q.visible_at <= v_inbox.visible_by AND q.id = ANY (p_id)
        RETURNING q.id, q.work_item, q.execution_id, q.operation_id, q.visible_at),
    kept AS (
        INSERT INTO dead_letters (queue, instance_id, payload, reason, set_aside_at, incarnation, answered)
        SELECT 'orchestrator', p_instance, g.work_item, b.reason, v_now,
            (SELECT i.incarnation FROM instances AS i WHERE i.instance_id = p_instance), b.item IS NOT NULL
        FROM gone AS g JOIN unnest(p_id, p_reason, p_stand_in) AS b (id, reason, item) ON b.id = g.id ORDER BY g.id)
    INSERT INTO orchestrator_queue (instance_id, visible_at, kind, work_item, created_at, execution_id, operation_id)
    SELECT coalesce(b.target, p_instance), v_now, b.kind, b.item, v_now, g.execution_id, g.operation_id
    FROM gone AS g JOIN unnest(p_id, p_stand_in_kind, p_stand_in, p_target) AS b (id, kind, item, target) ON b.id = g.id
    WHERE b.item IS NOT NULL ORDER BY g.id;
    SELECT array_agg(i.id ORDER BY i.id) INTO v_left FROM unnest(v_inbox.message_ids) AS i (id) WHERE i.id <> ALL (p_id);
    IF v_left IS NULL THEN
        -- Queue messages that come next may have waited for these to be read.
        PERFORM release_letters(ARRAY[p_instance]);
        PERFORM settle_inboxes(ARRAY[p_instance]);
    ELSE
        UPDATE inboxes AS b SET message_ids = v_left WHERE b.instance_id = p_instance;
    END IF;
END $$;
