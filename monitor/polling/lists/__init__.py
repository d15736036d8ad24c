"""Rows that a list must show, and the doubt when it lacks them."""
