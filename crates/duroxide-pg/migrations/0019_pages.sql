-- Pages of instances by the code that they run, and by when they ended.

-- Instances of one handler by their age. The pairs of name and version are few, so that a page of one name, or of one version, looks
-- at each pair in turn; a version that no instance has is found missing at once.
DROP INDEX idx_instances_name;
CREATE INDEX idx_instances_handler
    ON instances (orchestration_name, (coalesce(orchestration_version, 'unknown')), created_at, instance_id);

-- What has ended, by when. An index on the last update of each instance would be written by every turn, and no update would stay within
-- its page; what has ended is written here once, by a statement that writes indexes in any case.
CREATE INDEX idx_executions_ended ON executions (completed_at, instance_id) WHERE status IN ('Completed', 'Failed');

-- Labels go with their instance. A foreign key would look the instance up, and lock its row, for every label that is written.
ALTER TABLE labels DROP CONSTRAINT labels_instance_id_fkey;
CREATE FUNCTION end_labels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM labels AS l USING gone AS g WHERE l.instance_id = g.instance_id;
    RETURN NULL;
END $$;
CREATE TRIGGER instances_end_labels AFTER DELETE ON instances REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION end_labels();
