-- Questions about many instances: pages in the order of creation, also for one handler; instances that have not completed;
-- instances that a dead letter names.
CREATE INDEX idx_instances_created ON instances (created_at, instance_id);
CREATE INDEX idx_instances_name ON instances (orchestration_name, created_at, instance_id);
CREATE INDEX idx_executions_open ON executions (status) WHERE status <> 'Completed';
CREATE INDEX idx_dead_letters_instance ON dead_letters (instance_id) WHERE instance_id IS NOT NULL;
