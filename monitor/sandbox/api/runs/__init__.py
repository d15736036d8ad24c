"""Job groups, their jobs and results, and flow runs."""
