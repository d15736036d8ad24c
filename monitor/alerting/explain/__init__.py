"""Explains why people were notified of a run, an alert or a pipeline, or why not."""
