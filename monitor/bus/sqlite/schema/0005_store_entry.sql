-- Entries of the whole store and of no workspace. The index counts a topic without its values.

CREATE TABLE store_entry (
    topic TEXT NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (topic, key)
);
