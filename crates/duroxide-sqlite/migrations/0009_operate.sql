-- Instances that an operator paused. Claims put what they meet of them aside: a message into the lane `paused`, a request to cancel
-- behind all others (asked_at), an activity under a lease without an end. Resuming puts it back.
CREATE TABLE pauses (
    instance_id TEXT    NOT NULL PRIMARY KEY,
    paused_at   INTEGER NOT NULL
) WITHOUT ROWID;

-- Pages in the order of the last turn. It grows at its end, where commits write.
CREATE INDEX idx_instances_updated ON instances (updated_at, instance_id);
