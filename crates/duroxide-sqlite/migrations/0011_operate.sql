-- Labels of instances. `created_at` is that of the instance, so that a page of instances with one label is a walk along the index.
CREATE TABLE labels (
    instance_id TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (instance_id, key)
) WITHOUT ROWID;
CREATE INDEX idx_labels_value ON labels (key, value, created_at, instance_id);
CREATE TRIGGER labels_end AFTER DELETE ON instances BEGIN
    DELETE FROM labels WHERE instance_id = OLD.instance_id;
END;

-- Nodes on this store, as they say of themselves (JSON). Each writes its row every few seconds.
CREATE TABLE nodes (
    id        TEXT    NOT NULL PRIMARY KEY,
    info      TEXT    NOT NULL,
    seen_at   INTEGER NOT NULL,
    gone_at   INTEGER NOT NULL,
    forget_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What one node at a time does.
CREATE TABLE duties (
    duty       TEXT    NOT NULL PRIMARY KEY,
    holder     TEXT    NOT NULL,
    held_until INTEGER NOT NULL
) WITHOUT ROWID;
