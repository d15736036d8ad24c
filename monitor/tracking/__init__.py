"""From a look at a run to the events that follow, and to what is known now."""
