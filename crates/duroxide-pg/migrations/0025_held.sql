-- Rows that another transaction holds: a person with a shell, for minutes.

-- Which of these instances have a row that another transaction holds at this moment.
CREATE FUNCTION held_now(p_instances text[]) RETURNS TABLE (o_instance text)
LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT b.instance_id FROM inboxes AS b WHERE b.instance_id = ANY (p_instances) FOR UPDATE SKIP LOCKED),
    whole AS MATERIALIZED (
        SELECT i.instance_id FROM instances AS i WHERE i.instance_id = ANY (p_instances) FOR UPDATE SKIP LOCKED)
    SELECT b.instance_id FROM inboxes AS b
    WHERE b.instance_id = ANY (p_instances) AND b.instance_id NOT IN (SELECT f.instance_id FROM free AS f)
    UNION
    SELECT i.instance_id FROM instances AS i
    WHERE i.instance_id = ANY (p_instances) AND i.instance_id NOT IN (SELECT w.instance_id FROM whole AS w);
END $$;

-- Which of these activities another transaction holds at this moment.
CREATE FUNCTION held_work(p_ids bigint[]) RETURNS TABLE (o_id bigint)
LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (SELECT w.id FROM worker_queue AS w WHERE w.id = ANY (p_ids) FOR UPDATE SKIP LOCKED)
    SELECT w.id FROM worker_queue AS w WHERE w.id = ANY (p_ids) AND w.id NOT IN (SELECT f.id FROM free AS f);
END $$;
