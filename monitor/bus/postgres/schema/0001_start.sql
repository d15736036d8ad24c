-- works with: 1
-- Instants of the monitor are microseconds since 1970 UTC; those of leases are the server's.
-- Bodies are the JSON of the model's structs; a column stands beside a body only where something is
-- found or ordered by it. Text is compared byte by byte, and written as `codec.text` says.

-- Tells a store of the monitor from other tables, and one cluster from another.
CREATE TABLE store (
    singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    application text COLLATE "C" NOT NULL DEFAULT 'dataprep-monitor',
    cluster_id  uuid NOT NULL DEFAULT gen_random_uuid()
);

-- A program goes on with a newer schema that works with its own.
CREATE TABLE schema_version (
    version    integer PRIMARY KEY,
    works_with integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Each daemon and its heartbeat.
CREATE TABLE daemon (
    id              text COLLATE "C" PRIMARY KEY,
    incarnation     uuid NOT NULL,
    host            text COLLATE "C" NOT NULL,
    process         text COLLATE "C" NOT NULL,
    process_id      integer NOT NULL,
    version         text COLLATE "C" NOT NULL,
    schema          integer NOT NULL,
    url             text COLLATE "C",
    started_at      timestamptz NOT NULL,
    renewed_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    is_gone         boolean NOT NULL DEFAULT false,
    lease_seconds   double precision NOT NULL,
    digests         jsonb NOT NULL DEFAULT '{}',
    digests_version integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Every transaction of a holder changes the rows of its shards first, where holder, epoch and
-- last_transaction are as it knows them. Positions are taken here: a sequence would leave holes.
-- No index on what changes so often.
CREATE TABLE shard (
    number           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text COLLATE "C" NOT NULL UNIQUE,
    holder           text COLLATE "C",
    incarnation      uuid,
    epoch            bigint NOT NULL DEFAULT 0,
    newest_position  bigint NOT NULL DEFAULT 0,
    last_transaction bigint NOT NULL DEFAULT 0,  -- number of transactions, so that each is known
    held_since       timestamptz,
    taken_over_at    timestamptz,  -- when a daemon last took it from one that was gone
    last_change      text COLLATE "C" NOT NULL DEFAULT '',
    digest           text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

CREATE TABLE workspace (
    name  text COLLATE "C" PRIMARY KEY,
    shard integer NOT NULL REFERENCES shard (number),
    url   text COLLATE "C" NOT NULL
);
CREATE INDEX workspace_shard ON workspace (shard);

-- What a daemon has accepted for a shard that another one holds; its holder executes it.
CREATE TABLE instruction (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard      integer NOT NULL REFERENCES shard (number),
    id         text COLLATE "C" NOT NULL UNIQUE,
    kind       text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text COLLATE "C" NOT NULL DEFAULT '',
    done_at    timestamptz,
    outcome    bytea
);
CREATE INDEX instruction_waiting ON instruction (shard, number) WHERE done_at IS NULL;
CREATE INDEX instruction_done    ON instruction (done_at) WHERE done_at IS NOT NULL;

-- Proves that something can be stored; only written, never read.
CREATE TABLE probe (
    daemon    text COLLATE "C" PRIMARY KEY,
    probed_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Positions of a shard are without holes: nothing is inserted in vain and only the oldest are
-- deleted, so differences of positions are numbers of events.
CREATE TABLE event (
    shard       integer NOT NULL,
    position    bigint  NOT NULL,
    recorded_at bigint  NOT NULL,
    id          text COLLATE "C" NOT NULL,
    body        bytea   NOT NULL,
    PRIMARY KEY (shard, position),
    UNIQUE (id, shard)
);
CREATE INDEX event_recorded ON event (shard, recorded_at, position);

CREATE TABLE run (
    number      bigint  GENERATED ALWAYS AS IDENTITY,  -- orders runs of one instant
    shard       integer NOT NULL,
    created_at  bigint  NOT NULL,  -- or the earliest instant known, where none was reported
    ended_at    bigint,            -- null while the run is active
    workspace   text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL,
    flow_run    text COLLATE "C",
    plan_run    text COLLATE "C",
    pipeline_id text COLLATE "C",
    body        bytea   NOT NULL,
    PRIMARY KEY (workspace, kind, id)
);
CREATE INDEX run_active   ON run (workspace, created_at, number) WHERE ended_at IS NULL;
CREATE INDEX run_recent   ON run (workspace, kind, status, created_at, number);
CREATE INDEX run_newest   ON run (kind, status, created_at, number);  -- of all workspaces
CREATE INDEX run_ended    ON run (shard, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX run_flow_run ON run (workspace, flow_run) WHERE flow_run IS NOT NULL;
CREATE INDEX run_plan_run ON run (workspace, plan_run) WHERE plan_run IS NOT NULL;
CREATE INDEX run_pipeline ON run (workspace, kind, pipeline_id, created_at, number)
WHERE pipeline_id IS NOT NULL;

CREATE TABLE state_entry (
    shard     integer NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    topic     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    value     bytea NOT NULL,
    PRIMARY KEY (workspace, topic, key)
);

-- A processed callback stays for a while without its body, so that its repetition is recognised.
-- Ids are never used again: a late change must not process a callback that it has not seen. They
-- become visible out of their order, so nothing is read "behind an id".
CREATE TABLE callback (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard        integer NOT NULL,
    workspace    text COLLATE "C" NOT NULL,
    fingerprint  text COLLATE "C" NOT NULL,
    received_at  bigint NOT NULL,
    processed_at bigint,
    received_by  text COLLATE "C" NOT NULL,  -- a daemon
    body         bytea NOT NULL,
    UNIQUE (workspace, fingerprint)
);
CREATE INDEX callback_waiting   ON callback (shard, workspace, id) WHERE processed_at IS NULL;
CREATE INDEX callback_oldest    ON callback (shard, received_at) WHERE processed_at IS NULL;
CREATE INDEX callback_processed ON callback (shard, processed_at) WHERE processed_at IS NOT NULL;

CREATE TABLE consumer (
    shard         integer NOT NULL,
    name          text COLLATE "C" NOT NULL,
    position      bigint  NOT NULL,
    lost          bigint  NOT NULL DEFAULT 0,
    counted_until bigint  NOT NULL DEFAULT 0,  -- losses up to here are in lost
    unnamed_since timestamptz,                 -- no configuration has named it since
    PRIMARY KEY (shard, name)
) WITH (fillfactor = 50);

CREATE TABLE consumer_state (
    shard    integer NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    value    bytea NOT NULL,
    PRIMARY KEY (shard, consumer, key)
);

CREATE TABLE dead_letter (
    number   bigint GENERATED ALWAYS AS IDENTITY,
    shard    integer NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body     bytea NOT NULL,
    PRIMARY KEY (shard, consumer, position)
);
CREATE INDEX dead_letter_newest ON dead_letter (shard, consumer, number);
