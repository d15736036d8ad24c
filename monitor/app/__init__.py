"""Puts the rooms together: builds them, starts them in order, drains them in reverse."""
