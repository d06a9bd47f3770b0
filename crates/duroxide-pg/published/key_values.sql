SELECT key, value, coalesce(last_updated_at_ms, 0) FROM {s}.kv_store WHERE instance_id = $1 ORDER BY key
