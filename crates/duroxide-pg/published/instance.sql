-- What has ended was updated then, or later.
SELECT orchestration_name, orchestration_version, coalesce(current_execution_id, 1), parent_instance_id, custom_status,
       custom_status_version::bigint, coalesce((extract(epoch FROM created_at) * 1000)::bigint, 0),
       coalesce((extract(epoch FROM greatest(updated_at, (SELECT max(e.completed_at) FROM {s}.executions AS e
           WHERE e.instance_id = $1))) * 1000)::bigint, 0)
FROM {s}.instances WHERE instance_id = $1
