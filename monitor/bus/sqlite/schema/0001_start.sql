-- Instants are microseconds since 1970 UTC. Bodies are the JSON of the model's structs; a column
-- stands beside a body only where something is found or ordered by it.

-- Tells a store of the monitor from any other SQLite file.
PRAGMA application_id = 1146113357;

-- Positions are without holes: nothing is inserted in vain and only the oldest are deleted, so
-- differences of positions are numbers of events.
CREATE TABLE event (
    position    INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    recorded_at INTEGER NOT NULL,
    body        BLOB    NOT NULL
);
CREATE INDEX event_recorded ON event (recorded_at);

CREATE TABLE run (
    number     INTEGER PRIMARY KEY,
    workspace  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,  -- or the earliest instant known, where none was told
    ended_at   INTEGER,           -- null while the run is active
    flow_run   TEXT,
    plan_run   TEXT,
    body       BLOB    NOT NULL,
    UNIQUE (workspace, kind, id)
);
CREATE INDEX run_active   ON run (workspace, created_at) WHERE ended_at IS NULL;
CREATE INDEX run_recent   ON run (workspace, kind, status, created_at);
CREATE INDEX run_ended    ON run (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX run_flow_run ON run (workspace, flow_run) WHERE flow_run IS NOT NULL;
CREATE INDEX run_plan_run ON run (workspace, plan_run) WHERE plan_run IS NOT NULL;

CREATE TABLE note (
    workspace TEXT NOT NULL,
    topic     TEXT NOT NULL,
    key       TEXT NOT NULL,
    value     BLOB NOT NULL,
    PRIMARY KEY (workspace, topic, key)
) WITHOUT ROWID;

-- A settled callback stays for a while without its body, so that its repetition is recognised.
-- Ids are never used again: a late change must not settle a callback that it has not seen.
CREATE TABLE callback (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    settled_at  INTEGER,
    body        BLOB    NOT NULL,
    UNIQUE (workspace, fingerprint)
);
CREATE INDEX callback_waiting ON callback (workspace, id) WHERE settled_at IS NULL;
CREATE INDEX callback_oldest  ON callback (received_at) WHERE settled_at IS NULL;
CREATE INDEX callback_settled ON callback (settled_at) WHERE settled_at IS NOT NULL;

-- Counted as they come and go, because counting them for every arrival would cost more and more.
CREATE TABLE inbox (
    workspace TEXT    PRIMARY KEY,
    waiting   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER callback_arrives AFTER INSERT ON callback WHEN new.settled_at IS NULL BEGIN
    INSERT INTO inbox (workspace, waiting) VALUES (new.workspace, 1)
    ON CONFLICT (workspace) DO UPDATE SET waiting = waiting + 1;
END;
CREATE TRIGGER callback_is_settled AFTER UPDATE OF settled_at ON callback
WHEN old.settled_at IS NULL AND new.settled_at IS NOT NULL BEGIN
    UPDATE inbox SET waiting = waiting - 1 WHERE workspace = new.workspace;
END;
CREATE TRIGGER callback_expires AFTER DELETE ON callback WHEN old.settled_at IS NULL BEGIN
    UPDATE inbox SET waiting = waiting - 1 WHERE workspace = old.workspace;
END;

CREATE TABLE consumer (
    name          TEXT    PRIMARY KEY,
    position      INTEGER NOT NULL,
    lost          INTEGER NOT NULL DEFAULT 0,
    counted_until INTEGER NOT NULL DEFAULT 0  -- losses up to here are in lost
) WITHOUT ROWID;

CREATE TABLE consumer_state (
    consumer TEXT NOT NULL REFERENCES consumer (name) ON DELETE CASCADE,
    key      TEXT NOT NULL,
    value    BLOB NOT NULL,
    PRIMARY KEY (consumer, key)
) WITHOUT ROWID;

CREATE TABLE dead_letter (
    number     INTEGER PRIMARY KEY,
    consumer   TEXT    NOT NULL REFERENCES consumer (name) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (consumer, position)
);
CREATE INDEX dead_letter_newest ON dead_letter (consumer, number);
