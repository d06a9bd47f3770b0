-- Instances that rest: their messages are not visible until then, and come together when another message comes before. A row that
-- is over is left until another one begins.
CREATE TABLE rests (
    instance_id TEXT    NOT NULL PRIMARY KEY,
    until       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_rests_until ON rests (until);
