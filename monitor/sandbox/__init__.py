"""A workspace to try things on: it speaks the API, and in it things really run."""
