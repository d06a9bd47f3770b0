-- Leases that have not run out, by the server's clock. Sessions are no sign: they outlive the work that was done in them.
SELECT (SELECT count(*) FROM {s}.instance_locks WHERE locked_until > clock.ms)
     + (SELECT count(*) FROM {s}.worker_queue WHERE lock_token IS NOT NULL AND locked_until > clock.ms)
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms) AS clock
