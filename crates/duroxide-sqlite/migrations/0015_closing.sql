-- Why the store is closed for the engine and its clients; no row while it is open.
CREATE TABLE closing (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 0),
    reason TEXT    NOT NULL
);
