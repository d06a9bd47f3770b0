-- What each call of an activity said last, by the scheduling event of its first attempt. A row lasts as long as its execution.
CREATE TABLE heartbeats (
    instance_id  text COLLATE "C" NOT NULL,
    execution_id bigint NOT NULL,
    call_id      bigint NOT NULL,
    details      text   NOT NULL,
    said_at      bigint NOT NULL,
    PRIMARY KEY (instance_id, execution_id, call_id),
    FOREIGN KEY (instance_id, execution_id) REFERENCES executions (instance_id, execution_id) ON DELETE CASCADE
) WITH (fillfactor = 70);

-- Extends the lease of an activity and keeps what it said. Returns what is wrong with the lease, 'held' if another transaction holds
-- the row (as `renew_work`), 'gone' if there is no execution to keep it with, or nothing.
CREATE FUNCTION heartbeat_work(p_expected bigint, p_id bigint, p_token uuid, p_for bigint, p_call bigint, p_details text)
RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_until timestamptz := clock_timestamp() + renewal_patience();
    v_now bigint;
    v_work worker_queue;
BEGIN
    LOOP
        PERFORM 1 FROM worker_queue AS w WHERE w.id = p_id FOR UPDATE SKIP LOCKED;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.id = p_id);
        IF clock_timestamp() > v_until THEN
            RETURN (SELECT CASE WHEN w.lock_token IS DISTINCT FROM p_token THEN 'unknown'
                                WHEN w.locked_until > now_ms(p_expected) THEN 'held' ELSE 'expired' END
                    FROM worker_queue AS w WHERE w.id = p_id);
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    v_now := now_ms(p_expected);
    UPDATE worker_queue AS w SET locked_until = v_now + p_for
    WHERE w.id = p_id AND w.lock_token = p_token AND w.locked_until > v_now RETURNING * INTO v_work;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT 1 FROM worker_queue AS w WHERE w.id = p_id AND w.lock_token = p_token)
            THEN 'expired' ELSE 'unknown' END;
    END IF;
    IF v_work.session_id IS NOT NULL THEN
        PERFORM touch_sessions(ARRAY[v_work.session_id], v_now);
    END IF;
    INSERT INTO heartbeats AS h (instance_id, execution_id, call_id, details, said_at)
    SELECT e.instance_id, e.execution_id, p_call, p_details, v_now FROM executions AS e
    WHERE e.instance_id = v_work.instance_id AND e.execution_id = v_work.execution_id
    ON CONFLICT (instance_id, execution_id, call_id) DO UPDATE SET details = excluded.details, said_at = excluded.said_at;
    RETURN CASE WHEN FOUND THEN NULL ELSE 'gone' END;
END $$;
