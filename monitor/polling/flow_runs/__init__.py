"""Flow runs: shown by their job groups, read or derived at their end."""
