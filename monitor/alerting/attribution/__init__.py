"""Which subject and which root run an event is about."""
