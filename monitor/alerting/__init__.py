"""Evaluates rules on events and live state, and notifies people of their alerts."""
