-- Kept by the database itself, beside the tables of the daemons: who held what since when, and every
-- write to a shard's tables by a daemon that did not hold the shard. Each daemon is a role of its own.
CREATE SCHEMA audit;

-- Seconds since the machine was started: the clock of the database may be set.
CREATE FUNCTION audit.uptime() RETURNS double precision LANGUAGE sql AS
    $$ SELECT split_part(pg_read_file('/proc/uptime'), ' ', 1)::double precision $$;

CREATE TABLE audit.lease (
    at double precision NOT NULL DEFAULT audit.uptime(),
    shard text NOT NULL,
    holder text,
    epoch bigint NOT NULL
);

CREATE TABLE audit.foreign_write (
    at double precision NOT NULL DEFAULT audit.uptime(),
    writer text NOT NULL,
    holder text,
    shard text,
    relation text NOT NULL,
    operation text NOT NULL
);

CREATE FUNCTION audit.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit.lease (shard, holder, epoch) VALUES (NEW.name, NEW.holder, NEW.epoch);
    RETURN NULL;
END $$;

CREATE TRIGGER note_lease AFTER UPDATE ON shard FOR EACH ROW
    WHEN ((OLD.holder, OLD.epoch) IS DISTINCT FROM (NEW.holder, NEW.epoch))
    EXECUTE FUNCTION audit.note_lease();

CREATE FUNCTION audit.note_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    holding text;
    shard_name text;
BEGIN
    SELECT holder, name INTO holding, shard_name
        FROM shard WHERE number = coalesce((to_jsonb(NEW) ->> 'shard')::int, (to_jsonb(OLD) ->> 'shard')::int);
    IF holding IS DISTINCT FROM session_user THEN
        INSERT INTO audit.foreign_write (writer, holder, shard, relation, operation)
            VALUES (session_user, holding, shard_name, TG_TABLE_NAME, TG_OP);
    END IF;
    RETURN NULL;
END $$;
