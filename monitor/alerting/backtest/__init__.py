"""Other rules on recorded events: log, replay, comparison."""
