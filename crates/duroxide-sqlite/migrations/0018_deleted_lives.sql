-- What else of a deleted instance goes afterwards, a bounded number of rows at a time. Both are NULL for a restore that
-- is under way.

-- The life that was deleted, as long as starts of children may be left that it sent: no such child begins.
ALTER TABLE deletions ADD COLUMN life INTEGER;
CREATE INDEX idx_deletions_life ON deletions (life) WHERE life IS NOT NULL;

-- Activities of the instance up to this number are still to go, and none of them is handed out. NULL if none are left.
ALTER TABLE deletions ADD COLUMN work_to INTEGER;
