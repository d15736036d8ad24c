"""Seeds a new world."""
