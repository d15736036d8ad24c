-- works with: 1
-- By what time retention has judged ages last: the next daemon notices a clock that was set.
ALTER TABLE store ADD COLUMN judged_at timestamptz;
-- How often the log of a shard went back, because the database has lost its end. Positions are given
-- again then; together with the epoch they never repeat.
ALTER TABLE shard ADD COLUMN log_epoch integer NOT NULL DEFAULT 0;
ALTER TABLE event ADD COLUMN epoch integer NOT NULL DEFAULT 0;
