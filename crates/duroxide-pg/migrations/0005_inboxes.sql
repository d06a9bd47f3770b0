-- What an inbox says, once messages of its instance came, went or moved.

-- Ends the leases of these inboxes, which are locked by the caller. Those of `p_fed` get messages later in this transaction and stay
-- even if they are empty; if the messages do not come after all, the next claim removes them.
CREATE FUNCTION settle_inboxes(p_instance text[], p_fed text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    DELETE FROM inboxes AS b WHERE b.instance_id = ANY (p_instance) AND b.instance_id <> ALL (p_fed)
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q
                        WHERE q.instance_id = ANY (ARRAY[b.instance_id]));
    UPDATE inboxes AS b SET
        lock_token = NULL, locked_until = 0, message_ids = NULL, visible_by = NULL, is_cut = false, ready_at = coalesce(f.visible_at, b.ready_at),
        cancel_at = CASE WHEN b.cancel_at IS NOT NULL THEN
            (SELECT min(CASE WHEN terminates(q.work_item) THEN 0 ELSE q.created_at END) FROM orchestrator_queue AS q
             WHERE q.instance_id = b.instance_id AND q.kind = 'CancelInstance')
            END,
        lane = coalesce(nullif(f.lane, 'between'), CASE WHEN f.lane = 'between' OR b.lane IN ('', 'between') THEN
            (SELECT q.begins FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id AND q.begins IS NOT NULL
             ORDER BY q.kind, q.visible_at, q.id LIMIT 1) ELSE b.lane END, f.lane, b.lane)
    FROM (SELECT i.instance_id, n.lane, q.visible_at FROM unnest(p_instance) AS i (instance_id)
          LEFT JOIN LATERAL (SELECT q.visible_at FROM orchestrator_queue AS q WHERE q.instance_id = i.instance_id
                             ORDER BY q.visible_at LIMIT 1) AS q ON true
          LEFT JOIN instances AS n ON n.instance_id = i.instance_id) AS f
    WHERE b.instance_id = ANY (ARRAY[f.instance_id]);
END $$;
