-- Each index that a commit writes is a page more on the disk. Active runs are found by their status,
-- and processed callbacks are forgotten in the order of their arrival.

DROP INDEX run_active;
DROP INDEX callback_processed;
