"""What an answer shows."""
