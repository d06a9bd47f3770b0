-- Pages of instances by the code that they run, by when they ended, and by their labels.

-- Instances of one handler by their age. The pairs of name and version are few, so that a page of one name, or of one version, looks
-- at each pair in turn; a version that no instance has is found missing at once.
DROP INDEX idx_instances_name;
CREATE INDEX idx_instances_handler
    ON instances (orchestration_name, COALESCE(orchestration_version, 'unknown'), created_at, instance_id);

-- What has ended, by when. Each instance is written here once, at the end of the index.
CREATE INDEX idx_executions_ended ON executions (completed_at) WHERE status IN ('Completed', 'Failed');

-- Labels are kept with their instance, as a JSON object, and once more by their values, for those who look for them: one entry for each
-- instead of two. `created_at` is that of the instance, so that a page of instances with one label is a walk along the entries.
ALTER TABLE instances ADD COLUMN labels TEXT;
UPDATE instances SET labels = (SELECT json_group_object(l.key, l.value) FROM labels AS l WHERE l.instance_id = instances.instance_id)
    WHERE instance_id IN (SELECT instance_id FROM labels);
DROP TRIGGER labels_end;
ALTER TABLE labels RENAME TO old_labels;
CREATE TABLE labels (
    key         TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    instance_id TEXT    NOT NULL,
    PRIMARY KEY (key, value, created_at, instance_id)
) WITHOUT ROWID;
INSERT INTO labels (key, value, created_at, instance_id) SELECT key, value, created_at, instance_id FROM old_labels;
DROP TABLE old_labels;
CREATE TRIGGER labels_end AFTER DELETE ON instances WHEN OLD.labels IS NOT NULL BEGIN
    DELETE FROM labels WHERE (key, value, created_at, instance_id) IN
        (SELECT j.key, j.value, OLD.created_at, OLD.instance_id FROM json_each(OLD.labels) AS j);
END;
