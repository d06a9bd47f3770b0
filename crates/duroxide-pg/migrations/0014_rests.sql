-- Instances that rest. The inbox is locked already.

-- Gives a turn back without a place in the queue changed: the inbox is not ready for so long, or until the next message opens it
-- or becomes visible. It does not rest if one has done so since the claim. What a full claim left was there before, but for a request
-- to cancel; and queue messages stay behind a continue-as-new that carries some.
-- `false`: the token is not the last one that was granted.
CREATE FUNCTION rest_turn(p_expected bigint, p_instance text, p_token uuid, p_rest bigint, p_ignore boolean)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now bigint := enqueued_ms(p_expected);
    v_inbox inboxes;
    v_carries boolean;
BEGIN
    SELECT * INTO v_inbox FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT coalesce(bool_or(carries(q.kind, q.work_item)), false) INTO v_carries FROM orchestrator_queue AS q
    WHERE q.instance_id = p_instance AND q.visible_at <= v_inbox.visible_by AND q.id = ANY (v_inbox.message_ids);
    IF NOT p_ignore THEN
        UPDATE orchestrator_queue AS q SET attempt_count = q.attempt_count + 1
        WHERE q.instance_id = p_instance AND q.visible_at <= v_inbox.visible_by AND q.id = ANY (v_inbox.message_ids);
    END IF;
    PERFORM settle_inboxes(ARRAY[p_instance]);
    UPDATE inboxes AS b SET ready_at = greatest(b.ready_at, least(v_now + p_rest,
        (SELECT min(q.visible_at) FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.visible_at > v_now)))
    WHERE b.instance_id = p_instance AND NOT EXISTS (
        SELECT 1 FROM orchestrator_queue AS q
        WHERE NOT v_inbox.is_cut AND q.instance_id = p_instance AND q.visible_at <= v_now
          AND q.id <> ALL (v_inbox.message_ids) AND NOT (v_carries AND q.kind = 'QueueMessage'))
      -- A full claim takes the oldest request to cancel in any case: one came since if it took none.
      AND NOT (v_inbox.is_cut AND EXISTS (
        SELECT 1 FROM orchestrator_queue AS q
        WHERE q.instance_id = p_instance AND q.kind = 'CancelInstance' AND q.visible_at <= v_now)
      AND NOT EXISTS (
        SELECT 1 FROM orchestrator_queue AS q
        WHERE q.instance_id = p_instance AND q.kind = 'CancelInstance' AND q.id = ANY (v_inbox.message_ids)));
    RETURN true;
END $$;
