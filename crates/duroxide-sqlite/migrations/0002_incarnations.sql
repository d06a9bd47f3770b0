-- Which life of an id a row belongs to. Incarnations are random and positive; NULL: written by a build that had none.

ALTER TABLE instances ADD COLUMN incarnation INTEGER;
UPDATE instances SET incarnation = (random() & 0x7ffffffffffffffe) + 1;
-- The life of the parent that started the instance.
ALTER TABLE instances ADD COLUMN parent_incarnation INTEGER;

-- Of a start that a turn decided: the life of the instance that decided it.
ALTER TABLE orchestrator_queue ADD COLUMN sender_incarnation INTEGER;
CREATE INDEX idx_orch_sender ON orchestrator_queue (sender_incarnation) WHERE sender_incarnation IS NOT NULL;

-- Of the instance that scheduled the activity.
ALTER TABLE worker_queue ADD COLUMN incarnation INTEGER;
