"""Looks at a workspace again and again, and tells the observer what it sees."""
