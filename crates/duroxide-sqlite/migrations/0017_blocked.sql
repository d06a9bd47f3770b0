-- Instances that a node noted it cannot go on with. A note holds while the instance has no event beyond the one it had then, and has
-- not ended: a turn that goes on writes nothing here. The note goes with the instance.
CREATE TABLE blocked (
    instance_id   TEXT    NOT NULL PRIMARY KEY,
    incarnation   INTEGER,
    execution_id  INTEGER NOT NULL,
    last_event_id INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    report        TEXT    NOT NULL,
    attempts      INTEGER NOT NULL,
    node          TEXT    NOT NULL,
    noted_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER blocked_end AFTER DELETE ON instances BEGIN
    DELETE FROM blocked WHERE instance_id = OLD.instance_id;
END;
