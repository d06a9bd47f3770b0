-- Instances that were deleted and whose long histories are still to go, a bounded number of rows at a time. Until then nothing
-- of the history is shown, and no new instance of that id begins.
CREATE TABLE deletions (
    instance_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
