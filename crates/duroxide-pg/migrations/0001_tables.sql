-- The whole schema. Times are milliseconds since the Unix epoch on the server's clock, payloads are JSON text.
-- Ids are compared byte by byte. Indexes are few on purpose: each one is written again by every message that passes.

-- How far the time of the store is ahead of the server's clock: 0, unless that clock was set back.
CREATE TABLE clock (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    ahead_ms  bigint  NOT NULL DEFAULT 0
);
INSERT INTO clock DEFAULT VALUES;

CREATE TABLE instances (
    instance_id           text COLLATE "C" PRIMARY KEY,
    -- In the order of creation.
    number                bigint GENERATED ALWAYS AS IDENTITY,
    orchestration_name    text   NOT NULL,
    orchestration_version text,
    current_execution_id  bigint NOT NULL DEFAULT 1,
    parent_instance_id    text COLLATE "C",
    custom_status         text,
    custom_status_version bigint NOT NULL DEFAULT 0,
    created_at            bigint NOT NULL,
    updated_at            bigint NOT NULL,
    -- One life of the id, and the life of the parent that started it.
    incarnation           bigint NOT NULL,
    parent_incarnation    bigint,
    -- The code that the instance needs next.
    lane                  text COLLATE "C" NOT NULL,
    -- Whether its queue messages are held back: 1 while they are, 2 when that is over and some have yet to come back (0004, 0006).
    letters               smallint
) WITH (fillfactor = 75);
-- For pages of instances: all, and those of one handler, by their age.
CREATE INDEX idx_instances_created ON instances (created_at, instance_id);
CREATE INDEX idx_instances_name ON instances (orchestration_name, created_at, instance_id);
CREATE INDEX idx_instances_parent ON instances (parent_instance_id) WHERE parent_instance_id IS NOT NULL;

CREATE TABLE executions (
    instance_id  text COLLATE "C" NOT NULL,
    execution_id bigint NOT NULL,
    status       text   NOT NULL DEFAULT 'Running',
    output       text,
    started_at   bigint NOT NULL,
    completed_at bigint,
    -- The engine version that began the execution.
    pinned       text,
    PRIMARY KEY (instance_id, execution_id)
) WITH (fillfactor = 75);
CREATE INDEX idx_executions_open ON executions (status, instance_id) WHERE status <> 'Completed';

CREATE TABLE history (
    instance_id  text COLLATE "C" NOT NULL,
    execution_id bigint NOT NULL,
    event_id     bigint NOT NULL,
    event_type   text   NOT NULL,
    event_data   text   NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (instance_id, execution_id, event_id)
);

-- Messages for instances, timers included. Numbers grow in the order of enqueueing, instance by instance.
CREATE TABLE orchestrator_queue (
    instance_id        text COLLATE "C" NOT NULL,
    visible_at         bigint NOT NULL,
    id                 bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    kind               text   NOT NULL,
    work_item          text   NOT NULL,
    -- Attempts that are over; the one of a valid lease is in the lease.
    attempt_count      integer NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    created_at         bigint NOT NULL,
    -- Of a message that begins an execution: the code it names.
    begins             text,
    -- Of a start that a turn decided: the life of the instance that decided it.
    sender_incarnation bigint,
    -- Of a result or a timer: the operation that waits for it, so that a row that cannot be read does not leave it waiting.
    execution_id       bigint,
    operation_id       bigint,
    PRIMARY KEY (instance_id, visible_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.5);
CREATE INDEX idx_queue_special ON orchestrator_queue (instance_id, kind, id)
    WHERE kind IN ('ContinueAsNew', 'StartOrchestration', 'CancelInstance');
CREATE INDEX idx_queue_sender ON orchestrator_queue (sender_incarnation) WHERE sender_incarnation IS NOT NULL;

-- Messages that applications left in transactions of their own. A node moves them to the queue: a transaction that is not ours, and
-- may stay open for hours, never holds an inbox.
CREATE TABLE arrivals (
    id          bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    instance_id text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    work_item   text NOT NULL,
    begins      text,
    -- Until when it is left alone, because it or its instance could not be read (0023).
    rests_until bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.5);

CREATE INDEX idx_arrivals_resting ON arrivals (instance_id) WHERE rests_until > 0;

-- One row for each instance that has messages, or a lease: where a claim finds it, and what a claim locks.
CREATE TABLE inboxes (
    instance_id  text COLLATE "C" PRIMARY KEY,
    -- The code that the instance needs; '' for what any node may take.
    lane         text COLLATE "C" NOT NULL,
    -- When the first message is visible.
    ready_at     bigint NOT NULL,
    -- When the oldest request to cancel was enqueued; 0 for one that terminates.
    cancel_at    bigint,
    -- The lease, the messages that were claimed with it, and by when they were all visible.
    lock_token   uuid,
    locked_until bigint NOT NULL DEFAULT 0,
    message_ids  bigint[],
    visible_by   bigint,
    -- Whether more messages were visible than the claim could take.
    is_cut       boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);
CREATE INDEX idx_inboxes_ready ON inboxes (lane, ready_at);
CREATE INDEX idx_inboxes_cancel ON inboxes (cancel_at) WHERE cancel_at IS NOT NULL;

CREATE TABLE worker_queue (
    id            bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    instance_id   text COLLATE "C" NOT NULL,
    execution_id  bigint NOT NULL,
    activity_id   bigint NOT NULL,
    name          text   NOT NULL,
    work_item     text   NOT NULL,
    session_id    text COLLATE "C",
    tag           text,
    -- Tag, name and whether there is a session: who may take it.
    lane          text COLLATE "C" NOT NULL,
    visible_at    bigint NOT NULL,
    lock_token    uuid,
    locked_until  bigint NOT NULL DEFAULT 0,
    attempt_count integer NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    created_at    bigint NOT NULL,
    -- Of the instance that scheduled it.
    incarnation   bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);
-- For claims, lane by lane. Not plainly by the number: whenever it is analyzed the table is nearly empty, PostgreSQL then thinks that
-- walking this index from end to end is as cheap as looking a number up in the other one, and dead rows are many.
CREATE INDEX idx_worker_ready ON worker_queue (lane, (id + 0));
CREATE INDEX idx_worker_activity ON worker_queue (instance_id, execution_id, activity_id);
CREATE INDEX idx_worker_session ON worker_queue (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE sessions (
    session_id       text COLLATE "C" PRIMARY KEY,
    worker_id        text   NOT NULL,
    locked_until     bigint NOT NULL,
    last_activity_at bigint NOT NULL
) WITH (fillfactor = 70);

-- Key-values at the end of the last finished execution.
CREATE TABLE kv_store (
    instance_id        text COLLATE "C" NOT NULL,
    key                text COLLATE "C" NOT NULL,
    value              text   NOT NULL,
    last_updated_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, key)
);

-- Changes of the running execution; a NULL value hides the key.
CREATE TABLE kv_delta (
    instance_id        text COLLATE "C" NOT NULL,
    key                text COLLATE "C" NOT NULL,
    value              text,
    last_updated_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, key)
);

CREATE TABLE dead_letters (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        text   NOT NULL,
    instance_id  text COLLATE "C",
    payload      text   NOT NULL,
    reason       text   NOT NULL,
    set_aside_at bigint NOT NULL,
    -- The life of the instance that the message was for, if that is known, and whether the instance was told that the message could
    -- not be used: whether it may go back into its queue.
    incarnation  bigint,
    answered     boolean NOT NULL DEFAULT false
);
