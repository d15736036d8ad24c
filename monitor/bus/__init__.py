"""The durable, ordered log of events, with the state that must never part from it."""
