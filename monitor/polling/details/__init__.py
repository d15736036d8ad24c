"""Job records of job groups that have ended: queued, read once each, many by few requests."""
