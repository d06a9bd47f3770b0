-- Every id that anything is held of, once.
SELECT instance_id::text FROM {s}.instances
UNION SELECT instance_id::text FROM {s}.executions
UNION SELECT instance_id::text FROM {s}.history
UNION SELECT instance_id::text FROM {s}.orchestrator_queue
UNION SELECT coalesce(instance_id, '')::text FROM {s}.worker_queue
UNION SELECT instance_id::text FROM {s}.kv_store
UNION SELECT instance_id::text FROM {s}.kv_delta
ORDER BY 1
