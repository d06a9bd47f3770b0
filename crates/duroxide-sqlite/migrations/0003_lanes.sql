-- Claims by handler. A lane names the code that an instance needs, as JSON [name, version, engine version]; an empty lane
-- stands for an instance that any node may take. The earliest message of an instance always has a lane, and so has one that
-- begins an execution; the others need none and are not in the index, so that a claim looks at an instance once and not at
-- each of its messages, and never at instances whose code the caller lacks.

-- Of the code that the instance needs next; NULL: derived from the other columns.
ALTER TABLE instances ADD COLUMN lane TEXT;

ALTER TABLE orchestrator_queue ADD COLUMN lane TEXT;
-- A claim that finds a message in the wrong lane moves it, so an empty one will do.
UPDATE orchestrator_queue SET lane = '' WHERE id IN
    (SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY instance_id ORDER BY visible_at, id) AS place
                     FROM orchestrator_queue) WHERE place = 1);
UPDATE orchestrator_queue SET lane = CASE json_valid(work_item) WHEN 1 THEN json_array(
        json_extract(work_item, '$.' || kind || '.orchestration'), json_extract(work_item, '$.' || kind || '.version'), NULL)
    ELSE '' END
    WHERE kind IN ('StartOrchestration', 'ContinueAsNew');
DROP INDEX idx_orch_visible;
CREATE INDEX idx_orch_lane ON orchestrator_queue (lane, visible_at, id, instance_id) WHERE lane IS NOT NULL;
CREATE INDEX idx_orch_begin ON orchestrator_queue (instance_id) WHERE kind IN ('StartOrchestration', 'ContinueAsNew');
CREATE INDEX idx_orch_cancel ON orchestrator_queue (created_at) WHERE kind = 'CancelInstance';
CREATE INDEX idx_orch_awaiting ON orchestrator_queue (instance_id) WHERE lock_token = 'awaiting-start';

-- Of a result or a timer: the operation that waits for it, so that a row that cannot be read does not leave it waiting.
ALTER TABLE orchestrator_queue ADD COLUMN execution_id INTEGER;
ALTER TABLE orchestrator_queue ADD COLUMN operation_id INTEGER;

-- Of the activity; NULL if it cannot be read.
ALTER TABLE worker_queue ADD COLUMN name TEXT;
UPDATE worker_queue SET name = CASE json_valid(work_item) WHEN 1 THEN json_extract(work_item, '$.ActivityExecute.name') END;
DROP INDEX idx_worker_available;
CREATE INDEX idx_worker_available ON worker_queue (locked_until, tag, session_id, name, id, visible_at);
