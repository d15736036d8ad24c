-- works with: 1
-- By what time retention has judged ages last: the next daemon notices a clock that was set.
ALTER TABLE store ADD COLUMN judged_at timestamptz;
