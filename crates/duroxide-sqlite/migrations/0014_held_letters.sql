-- Instances whose queue messages are held back (`ack_holding_letters`). A message that is held back is not visible before the end of
-- time, so that it costs claims what a parked timer costs. `is_closed` is 0 once the hold is over: what was held back comes in steps.
CREATE TABLE held_letters (
    instance_id TEXT    NOT NULL PRIMARY KEY,
    is_closed   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER held_letters_end AFTER DELETE ON instances BEGIN
    DELETE FROM held_letters WHERE instance_id = OLD.instance_id;
END;
