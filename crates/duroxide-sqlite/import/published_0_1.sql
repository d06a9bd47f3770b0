-- Everything of a file of the published 0.1 line (schema `old`) that outlives a process, into an empty file of ours. Leases and
-- sessions are dropped: their holders are gone. Rows that cannot be read come along; the store dead-letters them.

INSERT INTO instances (instance_id, orchestration_name, orchestration_version, current_execution_id, parent_instance_id,
    custom_status, custom_status_version, created_at, updated_at, incarnation)
SELECT instance_id, orchestration_name, orchestration_version, current_execution_id, parent_instance_id,
    custom_status, COALESCE(custom_status_version, 0),
    CASE typeof(created_at) WHEN 'integer' THEN created_at ELSE COALESCE(unixepoch(created_at), 0) * 1000 END,
    CASE typeof(updated_at) WHEN 'integer' THEN updated_at ELSE COALESCE(unixepoch(updated_at), 0) * 1000 END,
    (random() & 0x7ffffffffffffffe) + 1
FROM old.instances ORDER BY 8, rowid;

INSERT INTO executions (instance_id, execution_id, status, output, started_at, completed_at,
    duroxide_version_major, duroxide_version_minor, duroxide_version_patch)
SELECT instance_id, execution_id, status, output,
    CASE typeof(started_at) WHEN 'integer' THEN started_at ELSE COALESCE(unixepoch(started_at), 0) * 1000 END,
    CASE typeof(completed_at) WHEN 'integer' THEN completed_at WHEN 'null' THEN NULL
        ELSE unixepoch(completed_at) * 1000 END,
    duroxide_version_major, duroxide_version_minor, duroxide_version_patch
FROM old.executions;

-- The old crate keeps the one in seconds and the other in milliseconds; what has ended was updated then, or later.
UPDATE instances SET updated_at = MAX(updated_at, COALESCE((SELECT MAX(e.completed_at) FROM executions AS e
    WHERE e.instance_id = instances.instance_id), 0));

INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
SELECT instance_id, execution_id, event_id, event_type, event_data,
    CASE typeof(created_at) WHEN 'integer' THEN created_at ELSE COALESCE(unixepoch(created_at), 0) * 1000 END
FROM old.history;

-- A message is stored as an object with one key, its kind.
INSERT INTO orchestrator_queue (id, instance_id, kind, work_item, visible_at, attempt_count, created_at,
    execution_id, operation_id, awaited_by, carries)
SELECT id, instance_id, kind, work_item, visible_at, attempt_count, created_at,
    CASE WHEN kind IN ('ActivityCompleted', 'ActivityFailed', 'TimerFired') THEN json_extract(fields, '$.execution_id')
         WHEN kind IN ('SubOrchCompleted', 'SubOrchFailed', 'StartOrchestration')
             THEN json_extract(fields, '$.parent_execution_id') END,
    CASE WHEN kind IN ('ActivityCompleted', 'ActivityFailed', 'TimerFired') THEN json_extract(fields, '$.id')
         WHEN kind IN ('SubOrchCompleted', 'SubOrchFailed', 'StartOrchestration') THEN json_extract(fields, '$.parent_id') END,
    CASE kind WHEN 'StartOrchestration' THEN json_extract(fields, '$.parent_instance') END,
    CASE WHEN kind = 'ContinueAsNew' AND json_array_length(fields, '$.carry_forward_events') > 0 THEN 1 END
FROM (SELECT q.id, q.instance_id, q.work_item, COALESCE(q.attempt_count, 0) AS attempt_count,
          COALESCE((SELECT j.key FROM json_each(CASE json_valid(q.work_item) WHEN 1 THEN q.work_item ELSE '{}' END) AS j
                    LIMIT 1), '') AS kind,
          COALESCE((SELECT j.value FROM json_each(CASE json_valid(q.work_item) WHEN 1 THEN q.work_item ELSE '{}' END) AS j
                    WHERE j.type = 'object' LIMIT 1), '{}') AS fields,
          CASE typeof(q.visible_at) WHEN 'integer' THEN q.visible_at
              ELSE COALESCE(unixepoch(q.visible_at), 0) * 1000 END AS visible_at,
          CASE typeof(q.created_at) WHEN 'integer' THEN q.created_at
              ELSE COALESCE(unixepoch(q.created_at), 0) * 1000 END AS created_at
      FROM old.orchestrator_queue AS q);

-- As when lanes were introduced: a claim that finds a message in the wrong lane moves it.
UPDATE orchestrator_queue SET lane = '' WHERE id IN
    (SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY instance_id ORDER BY visible_at, id) AS place
                     FROM orchestrator_queue) WHERE place = 1);
UPDATE orchestrator_queue SET lane = json_array(
        json_extract(work_item, '$.' || kind || '.orchestration'), json_extract(work_item, '$.' || kind || '.version'), NULL)
    WHERE kind IN ('StartOrchestration', 'ContinueAsNew');

INSERT INTO worker_queue (id, instance_id, execution_id, activity_id, work_item, session_id, tag, visible_at,
    attempt_count, created_at, incarnation, name)
SELECT q.id,
    COALESCE(q.instance_id, json_extract(f.fields, '$.instance'), ''),
    COALESCE(CAST(q.execution_id AS INTEGER), json_extract(f.fields, '$.execution_id'), 0),
    COALESCE(q.activity_id, json_extract(f.fields, '$.id'), 0),
    q.work_item, q.session_id, q.tag,
    CASE typeof(q.visible_at) WHEN 'integer' THEN q.visible_at ELSE 0 END,
    COALESCE(q.attempt_count, 0),
    CASE typeof(q.created_at) WHEN 'integer' THEN q.created_at ELSE COALESCE(unixepoch(q.created_at), 0) * 1000 END,
    (SELECT i.incarnation FROM instances AS i WHERE i.instance_id = q.instance_id),
    json_extract(f.fields, '$.name')
FROM old.worker_queue AS q JOIN
    (SELECT id, COALESCE(json_extract(CASE json_valid(work_item) WHEN 1 THEN work_item ELSE '{}' END, '$.ActivityExecute'),
         '{}') AS fields FROM old.worker_queue) AS f ON f.id = q.id
ORDER BY q.id;

INSERT INTO kv_store (instance_id, key, value, last_updated_at_ms)
SELECT instance_id, key, value, COALESCE(last_updated_at_ms, 0) FROM old.kv_store;

INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms)
SELECT instance_id, key, value, COALESCE(last_updated_at_ms, 0) FROM old.kv_delta;
