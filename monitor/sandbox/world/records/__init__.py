"""The records of the world: the main things, what stands beside them, and what runs."""
