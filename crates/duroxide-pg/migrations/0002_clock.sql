-- The time of the store: the server's clock, which never runs backwards here.

CREATE FUNCTION server_ms(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT (extract(epoch FROM moment) * 1000)::bigint $$;

-- `expected` is what the caller takes for the time of the store: the last answer it got, and what passed since. A clock that is
-- behind it by more than a second was set back; then the store goes on from there, and takes that back when the clock comes back.
CREATE FUNCTION store_ms(moment timestamptz, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_clock bigint := server_ms(moment);
    v_ahead bigint;
BEGIN
    SELECT ahead_ms INTO v_ahead FROM clock WHERE singleton;
    IF v_clock + v_ahead < expected - 1000 THEN
        UPDATE clock SET ahead_ms = expected - v_clock WHERE ahead_ms + v_clock < expected - 1000;
        RETURN expected;
    END IF;
    IF v_ahead > 0 AND expected > 0 AND v_clock + v_ahead > expected + 1000 THEN
        UPDATE clock SET ahead_ms = greatest(0, expected - v_clock) WHERE ahead_ms = v_ahead;
        RETURN greatest(v_clock, expected);
    END IF;
    RETURN v_clock + v_ahead;
END $$;

-- `WHERE singleton` everywhere: where sequential scans are off, a query without it looks so expensive to PostgreSQL that it is compiled.

-- A due time that a caller computed with the server's clock, in the time of the store; no later than can be added to.
CREATE FUNCTION due_ms(p_due bigint) RETURNS bigint LANGUAGE plpgsql STABLE STRICT AS
$$ BEGIN RETURN least(p_due, 4611686018427387903) + (SELECT ahead_ms FROM clock WHERE singleton); END $$;

-- The same moment for all that one transaction enqueues.
CREATE FUNCTION enqueued_ms(expected bigint) RETURNS bigint LANGUAGE sql AS
$$ SELECT store_ms(transaction_timestamp(), expected) $$;

-- This very moment: leases begin when they are granted.
CREATE FUNCTION now_ms(expected bigint) RETURNS bigint LANGUAGE sql AS
$$ SELECT store_ms(clock_timestamp(), expected) $$;
