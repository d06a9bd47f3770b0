SELECT (SELECT count(*) FROM {s}.instances),
       (SELECT count(*) FROM (SELECT instance_id, execution_id FROM {s}.executions
                              UNION SELECT instance_id, execution_id FROM {s}.history) AS executions),
       (SELECT count(*) FROM {s}.history),
       (SELECT count(*) FROM {s}.orchestrator_queue),
       (SELECT count(*) FROM {s}.worker_queue),
       (SELECT count(*) FROM {s}.kv_store) + (SELECT count(*) FROM {s}.kv_delta)
