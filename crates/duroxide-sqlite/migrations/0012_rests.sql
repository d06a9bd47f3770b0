-- Instances that rest: their messages are not visible until then, and come together when another message comes before. A row that
-- is over is left until the next message of its instance, or its next rest.
CREATE TABLE rests (
    instance_id TEXT    NOT NULL PRIMARY KEY,
    until       INTEGER NOT NULL
) WITHOUT ROWID;
