-- Instances that an operator paused. Such an instance is in the lane `paused`; the lane it comes back to is kept beside it. Its inbox
-- is ready at no time, unless the instance is to be terminated, and its activities are in lanes that no claim looks into.

ALTER TABLE instances ADD COLUMN paused_at bigint;
ALTER TABLE instances ADD COLUMN paused_lane text COLLATE "C";
CREATE INDEX idx_instances_paused ON instances (instance_id) WHERE paused_at IS NOT NULL;

-- A turn that was claimed before the pause may move its instance to another lane, or end it.
CREATE FUNCTION keep_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lane = '' THEN
        NEW.paused_at := NULL;
        NEW.paused_lane := NULL;
    ELSIF NEW.lane <> 'paused' THEN
        NEW.paused_lane := NEW.lane;
        NEW.lane := 'paused';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER instances_keep_paused BEFORE UPDATE OF lane ON instances FOR EACH ROW
    WHEN (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NOT NULL) EXECUTE FUNCTION keep_paused();

CREATE FUNCTION hold_inbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ready_at := CASE WHEN NEW.cancel_at = 0 THEN 0 ELSE 9223372036854775807 END;
    RETURN NEW;
END $$;
CREATE TRIGGER inboxes_hold BEFORE INSERT OR UPDATE ON inboxes FOR EACH ROW
    WHEN (NEW.lane = 'paused') EXECUTE FUNCTION hold_inbox();

-- No code is asked before an instance is terminated, by any sender of the request.
CREATE FUNCTION note_termination() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inboxes AS b SET cancel_at = 0
    WHERE b.instance_id = NEW.instance_id AND b.cancel_at <> 0 AND terminates(NEW.work_item);
    RETURN NULL;
END $$;
CREATE TRIGGER orchestrator_queue_termination AFTER INSERT ON orchestrator_queue FOR EACH ROW
    WHEN (NEW.kind = 'CancelInstance') EXECUTE FUNCTION note_termination();

-- `outcome`: 0 done, 1 unchanged, 2 no such instance, 3 ended.
CREATE FUNCTION pause_instance(p_expected bigint, p_instance text) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' SET enable_seqscan = off AS $$
DECLARE
    v_row instances;
BEGIN
    -- Locks the inbox, also one that is not there: turns are claimed and committed under it.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 9223372036854775807)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    SELECT * INTO v_row FROM instances AS i WHERE i.instance_id = p_instance FOR UPDATE;
    IF v_row.instance_id IS NULL OR v_row.lane = '' OR v_row.paused_at IS NOT NULL THEN
        DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
            AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
        RETURN CASE WHEN v_row.instance_id IS NULL THEN 2 WHEN v_row.lane = '' THEN 3 ELSE 1 END;
    END IF;
    UPDATE instances AS i SET paused_at = now_ms(p_expected), paused_lane = i.lane, lane = 'paused' WHERE i.instance_id = p_instance;
    UPDATE inboxes AS b SET lane = 'paused' WHERE b.instance_id = p_instance;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
    UPDATE worker_queue AS w SET lane = 'paused ' || w.lane
    FROM (SELECT o.id FROM worker_queue AS o WHERE o.instance_id = p_instance ORDER BY o.id FOR UPDATE) AS o
    WHERE w.id = o.id AND w.lane NOT LIKE 'paused %';
    RETURN 0;
END $$;

CREATE FUNCTION resume_instance(p_instance text) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' SET enable_seqscan = off AS $$
DECLARE
    v_row instances;
BEGIN
    -- As in `pause_instance`: a sender that saw the pause and opens the inbox at this moment has committed before the pause ends, or
    -- waits and finds that it ended.
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 9223372036854775807)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    SELECT * INTO v_row FROM instances AS i WHERE i.instance_id = p_instance FOR UPDATE;
    IF v_row.paused_at IS NOT NULL THEN
        UPDATE instances AS i SET paused_at = NULL, paused_lane = NULL, lane = v_row.paused_lane WHERE i.instance_id = p_instance;
        UPDATE inboxes AS b SET
            lane = CASE WHEN v_row.paused_lane = 'between' THEN coalesce(
                (SELECT q.begins FROM orchestrator_queue AS q WHERE q.instance_id = p_instance AND q.begins IS NOT NULL
                 ORDER BY q.kind, q.visible_at, q.id LIMIT 1), 'between') ELSE v_row.paused_lane END,
            ready_at = coalesce((SELECT min(q.visible_at) FROM orchestrator_queue AS q WHERE q.instance_id = p_instance), 0)
        WHERE b.instance_id = p_instance;
    END IF;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
    IF v_row.instance_id IS NULL OR v_row.paused_at IS NULL THEN
        RETURN CASE WHEN v_row.instance_id IS NULL THEN 2 WHEN v_row.lane = '' THEN 3 ELSE 1 END;
    END IF;
    PERFORM free_paused_work(p_instance);
    RETURN 0;
END $$;

CREATE FUNCTION free_paused_work(p_instance text) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE worker_queue AS w SET lane = substr(w.lane, 8)
    FROM (SELECT o.id FROM worker_queue AS o WHERE o.instance_id = p_instance ORDER BY o.id FOR UPDATE) AS o
    WHERE w.id = o.id AND w.lane LIKE 'paused %';
END $$;
