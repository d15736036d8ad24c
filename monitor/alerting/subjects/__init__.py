"""Whom an event concerns, and what is known of it now."""
