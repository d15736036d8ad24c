-- works with: 1
-- Entries of the whole store and of no workspace: any daemon writes them, without a lease.
CREATE TABLE store_entry (
    topic text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (topic, key)
);
