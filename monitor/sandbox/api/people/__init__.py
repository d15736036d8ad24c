"""People, their tokens and their settings."""
