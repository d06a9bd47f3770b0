-- What is for one life of an id alone: another life counts as if nothing had the id.

-- Locks the inbox, also one that is not there, as a pause and a deletion do; whether the instance is this life. If not, what was made
-- only to be locked goes.
CREATE FUNCTION holds_life(p_instance text, p_life bigint) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO inboxes AS b (instance_id, lane, ready_at) VALUES (p_instance, '', 9223372036854775807)
    ON CONFLICT (instance_id) DO UPDATE SET lane = b.lane;
    IF EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = p_instance AND i.incarnation = p_life) THEN
        RETURN true;
    END IF;
    DELETE FROM inboxes AS b WHERE b.instance_id = p_instance AND b.lock_token IS NULL
        AND NOT EXISTS (SELECT 1 FROM orchestrator_queue AS q WHERE q.instance_id = b.instance_id);
    RETURN false;
END $$;

CREATE FUNCTION pause_life(p_expected bigint, p_instance text, p_life bigint) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
    RETURN CASE WHEN holds_life(p_instance, p_life) THEN pause_instance(p_expected, p_instance) ELSE 2 END;
END $$;

CREATE FUNCTION resume_life(p_instance text, p_life bigint) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
    RETURN CASE WHEN holds_life(p_instance, p_life) THEN resume_instance(p_instance) ELSE 2 END;
END $$;
