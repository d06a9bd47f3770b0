-- What a claim has to know of a message without reading it.

-- Of the start of a child: the instance that waits for it; execution_id and operation_id name what it waits with.
ALTER TABLE orchestrator_queue ADD COLUMN awaited_by TEXT;

-- Of a continue-as-new: 1 if it carries messages that its instance has not read yet. A claim that takes it leaves further
-- messages of that kind in the queue, so that what is carried does not grow.
ALTER TABLE orchestrator_queue ADD COLUMN carries INTEGER;
UPDATE orchestrator_queue SET carries = 1 WHERE kind = 'ContinueAsNew' AND json_valid(work_item)
    AND json_array_length(work_item, '$.ContinueAsNew.carry_forward_events') > 0;

-- Requests to cancel, by instance: a full claim finds its own without passing over those of others.
CREATE INDEX idx_orch_cancel_of ON orchestrator_queue (instance_id) WHERE kind = 'CancelInstance';

-- The time of the store at one of the last commits. A clock that is set back while no process has the store open makes
-- nothing wait and lengthens no lease.
CREATE TABLE store_time (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 0),
    at INTEGER NOT NULL
);
