-- Of a request to cancel: from when on its age counts, after which any node may end the instance. 0 for a request to
-- terminate: no code is asked, so none is waited for.
ALTER TABLE orchestrator_queue ADD COLUMN asked_at INTEGER;
UPDATE orchestrator_queue SET asked_at = created_at WHERE kind = 'CancelInstance';
UPDATE orchestrator_queue SET asked_at = 0 WHERE kind = 'CancelInstance' AND json_valid(work_item)
    AND (json_extract(work_item, '$.CancelInstance.reason') LIKE 'duroxide:terminate:%'
        OR json_extract(work_item, '$.CancelInstance.reason') LIKE 'duroxide:parent:%duroxide:terminate:%');
DROP INDEX idx_orch_cancel;
CREATE INDEX idx_orch_cancel ON orchestrator_queue (asked_at) WHERE kind = 'CancelInstance';

-- Messages of a deleted instance up to this number are still to go, that one last: while it is there, no new message gets a
-- number below it. NULL if none are left.
ALTER TABLE deletions ADD COLUMN queued_to INTEGER;
