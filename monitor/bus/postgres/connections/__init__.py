"""Connections to PostgreSQL: found, checked, refused, and the schema they find."""
