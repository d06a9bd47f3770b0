-- In the order in which they were enqueued. The empty id stands for rows that name no instance.
SELECT work_item, coalesce((extract(epoch FROM visible_at) * 1000)::bigint, 0), coalesce(attempt_count, 0),
       coalesce(execution_id, 0), coalesce(activity_id, 0), session_id, tag
FROM {s}.worker_queue WHERE instance_id = $1 OR ($1 = '' AND instance_id IS NULL) ORDER BY id
