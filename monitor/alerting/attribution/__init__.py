"""Attributes events to the subject and the root run that they are about."""
