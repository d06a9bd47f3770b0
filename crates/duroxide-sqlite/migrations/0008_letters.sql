-- Whether a dead letter may go back into its queue: the life of the instance that it was for (NULL: not known), and whether the
-- instance was told that the message could not be used.
ALTER TABLE dead_letters ADD COLUMN incarnation INTEGER;
ALTER TABLE dead_letters ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;
