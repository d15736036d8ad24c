"""The words of the monitor. Everything else speaks in them; nothing here knows the rest."""
