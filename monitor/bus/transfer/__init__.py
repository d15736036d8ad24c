"""Moves everything from one store to another: between a file and a database, or two databases."""
