SELECT execution_id, status, output, coalesce((extract(epoch FROM started_at) * 1000)::bigint, 0),
       (extract(epoch FROM completed_at) * 1000)::bigint,
       duroxide_version_major || '.' || duroxide_version_minor || '.' || duroxide_version_patch
FROM {s}.executions WHERE instance_id = $1 ORDER BY execution_id
