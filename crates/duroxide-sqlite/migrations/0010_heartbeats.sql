-- What each call of an activity said last, by the scheduling event of its first attempt. A row lasts as long as its execution.
CREATE TABLE heartbeats (
    instance_id  TEXT    NOT NULL,
    execution_id INTEGER NOT NULL,
    call_id      INTEGER NOT NULL,
    details      TEXT    NOT NULL,
    said_at      INTEGER NOT NULL,
    PRIMARY KEY (instance_id, execution_id, call_id)
) WITHOUT ROWID;
CREATE TRIGGER heartbeats_end AFTER DELETE ON executions BEGIN
    DELETE FROM heartbeats WHERE instance_id = OLD.instance_id AND execution_id = OLD.execution_id;
END;
