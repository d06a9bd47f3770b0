-- The whole schema. Times are milliseconds since the Unix epoch, payloads are JSON text.
-- Indexes are few on purpose: each one is written again by every message that passes.

CREATE TABLE instances (
    instance_id           TEXT    NOT NULL PRIMARY KEY,
    orchestration_name    TEXT    NOT NULL,
    orchestration_version TEXT,
    current_execution_id  INTEGER NOT NULL DEFAULT 1,
    parent_instance_id    TEXT,
    custom_status         TEXT,
    custom_status_version INTEGER NOT NULL DEFAULT 0,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL
);
CREATE INDEX idx_instances_parent ON instances (parent_instance_id) WHERE parent_instance_id IS NOT NULL;

CREATE TABLE executions (
    instance_id            TEXT    NOT NULL,
    execution_id           INTEGER NOT NULL,
    status                 TEXT    NOT NULL DEFAULT 'Running',
    output                 TEXT,
    started_at             INTEGER NOT NULL,
    completed_at           INTEGER,
    duroxide_version_major INTEGER,
    duroxide_version_minor INTEGER,
    duroxide_version_patch INTEGER,
    duroxide_version_pre   TEXT,
    PRIMARY KEY (instance_id, execution_id)
) WITHOUT ROWID;

CREATE TABLE history (
    instance_id  TEXT    NOT NULL,
    execution_id INTEGER NOT NULL,
    event_id     INTEGER NOT NULL,
    event_type   TEXT    NOT NULL,
    event_data   TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (instance_id, execution_id, event_id)
) WITHOUT ROWID;

-- lock_token is set while a message is claimed. The token 'awaiting-start' marks a message for an instance nobody
-- has started yet: it comes back when the start arrives, or is set aside once visible_at has passed.
CREATE TABLE orchestrator_queue (
    id            INTEGER PRIMARY KEY,
    instance_id   TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    work_item     TEXT    NOT NULL,
    visible_at    INTEGER NOT NULL,
    lock_token    TEXT,
    attempt_count INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    created_at    INTEGER NOT NULL
);
CREATE INDEX idx_orch_visible ON orchestrator_queue (visible_at, instance_id);
CREATE INDEX idx_orch_instance ON orchestrator_queue (instance_id, visible_at);

-- locked_until is NULL while the item is free; an expired lease is set back to NULL by the next claim.
CREATE TABLE worker_queue (
    id            INTEGER PRIMARY KEY,
    instance_id   TEXT    NOT NULL,
    execution_id  INTEGER NOT NULL,
    activity_id   INTEGER NOT NULL,
    work_item     TEXT    NOT NULL,
    session_id    TEXT,
    tag           TEXT,
    visible_at    INTEGER NOT NULL,
    lock_token    TEXT,
    locked_until  INTEGER,
    attempt_count INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    created_at    INTEGER NOT NULL
);
CREATE INDEX idx_worker_available ON worker_queue (locked_until, tag, session_id, id, visible_at);
CREATE INDEX idx_worker_activity ON worker_queue (instance_id, execution_id, activity_id);
CREATE INDEX idx_worker_delayed ON worker_queue (visible_at) WHERE visible_at > created_at;
CREATE INDEX idx_worker_session ON worker_queue (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE instance_locks (
    instance_id  TEXT    NOT NULL PRIMARY KEY,
    lock_token   TEXT    NOT NULL,
    locked_until INTEGER NOT NULL,
    locked_at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
    session_id       TEXT    NOT NULL PRIMARY KEY,
    worker_id        TEXT    NOT NULL,
    locked_until     INTEGER NOT NULL,
    last_activity_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Key-values at the end of the last finished execution.
CREATE TABLE kv_store (
    instance_id        TEXT    NOT NULL,
    key                TEXT    NOT NULL,
    value              TEXT    NOT NULL,
    last_updated_at_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, key)
) WITHOUT ROWID;

-- Changes of the running execution; a NULL value hides the key.
CREATE TABLE kv_delta (
    instance_id        TEXT    NOT NULL,
    key                TEXT    NOT NULL,
    value              TEXT,
    last_updated_at_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, key)
) WITHOUT ROWID;

-- message_id and lock_token are kept for messages that the holder of a claim set aside.
CREATE TABLE dead_letters (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT    NOT NULL,
    instance_id  TEXT,
    payload      TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    set_aside_at INTEGER NOT NULL,
    message_id   INTEGER,
    lock_token   TEXT
);
CREATE INDEX idx_dead_letters_lock ON dead_letters (lock_token) WHERE lock_token IS NOT NULL;
