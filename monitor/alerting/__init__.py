"""Evaluates rules for what happened and what did not, and publishes each alert once."""
