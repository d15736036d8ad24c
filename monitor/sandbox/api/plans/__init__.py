"""Plans, their nodes and their runs."""
