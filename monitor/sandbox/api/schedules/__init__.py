"""Schedules and their triggers."""
