"""Which subject and root run an event is about."""
