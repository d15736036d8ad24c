"""Output objects and where they write."""
