-- In the order in which they were enqueued.
SELECT work_item, coalesce((extract(epoch FROM visible_at) * 1000)::bigint, 0), coalesce(attempt_count, 0)
FROM {s}.orchestrator_queue WHERE instance_id = $1 ORDER BY id
