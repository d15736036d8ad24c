"""What exists from the start."""
