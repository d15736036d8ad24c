"""What becomes of an alert from fired to resolved, and what is held of it."""
