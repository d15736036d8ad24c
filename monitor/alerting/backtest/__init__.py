"""Other rules over recorded events."""
