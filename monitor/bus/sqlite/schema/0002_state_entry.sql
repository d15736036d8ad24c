-- The words of the code for the same tables: a note is a state entry, a settled callback is a
-- processed one. Triggers that name a renamed column follow it by themselves; names do not.

ALTER TABLE note RENAME TO state_entry;

ALTER TABLE callback RENAME COLUMN settled_at TO processed_at;
DROP INDEX callback_settled;
CREATE INDEX callback_processed ON callback (processed_at) WHERE processed_at IS NOT NULL;
DROP TRIGGER callback_is_settled;
CREATE TRIGGER callback_is_processed AFTER UPDATE OF processed_at ON callback
WHEN old.processed_at IS NULL AND new.processed_at IS NOT NULL BEGIN
    UPDATE inbox SET waiting = waiting - 1 WHERE workspace = new.workspace;
END;
