-- works with: 1
-- Where the judgement of ages has left off, beside judged_at: see trusted_time.py.
ALTER TABLE store ADD COLUMN judged_next_at timestamptz;
ALTER TABLE store ADD COLUMN judged_waits_seconds double precision;
-- The server and its timeline on which the log goes on: a promotion, or a restore into another
-- server, is where it may go back. Empty until the shard is opened where the server says both.
ALTER TABLE shard ADD COLUMN log_lineage text NOT NULL DEFAULT '';
-- When the log of a shard went back, and how many events it has lost, where that is known.
ALTER TABLE shard ADD COLUMN end_lost_at timestamptz;
ALTER TABLE shard ADD COLUMN end_lost_count bigint;
