"""From an observation of a run to the events that follow, and to live state."""
