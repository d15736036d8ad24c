"""Settings of the pages for those who wait for data."""
